{{/*
Name of all objects. A release name has fewer characters than a Service name
may have, so the name is a value of its own. It is quoted wherever it is used:
a name such as "true" or "no" is no string in YAML otherwise.
*/}}
{{- define "webapp.name" -}}
{{- .Values.name | default .Release.Name | quote -}}
{{- end -}}

{{/*
Labels that select the pods. They are immutable in a Deployment, so nothing
that can change belongs here.
*/}}
{{- define "webapp.selectorLabels" -}}
app: {{ include "webapp.name" . }}
app.kubernetes.io/name: webapp
{{- end -}}

{{/*
Labels of every object. The chart's version is not among them: a new version
of the chart that makes the same objects is to change none.
*/}}
{{- define "webapp.labels" -}}
{{ include "webapp.selectorLabels" . }}
app.kubernetes.io/instance: {{ include "webapp.name" . }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
{{- end -}}

{{/*
Not empty where the volume is one that can be used on one node, or by one pod,
only. Then all pods have to be on one node, and the old ones have to go before
the new ones come.
*/}}
{{- define "webapp.onOneNode" -}}
{{- if and .Values.storage.enabled (ne .Values.storage.accessMode "ReadWriteMany") -}}
true
{{- end -}}
{{- end -}}

{{/*
Affinity of the pods: the one of the values, and one to each other where they
have to be on one node. None of it depends on how many pods there are, so that
scaling changes no pod.
*/}}
{{- define "webapp.affinity" -}}
{{- $affinity := deepCopy (.Values.affinity | default dict) -}}
{{- if include "webapp.onOneNode" . -}}
{{- $together := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" (include "webapp.selectorLabels" . | fromYaml)) -}}
{{- $pods := $affinity.podAffinity | default dict -}}
{{- $terms := append ($pods.requiredDuringSchedulingIgnoredDuringExecution | default list) $together -}}
{{- $_ := set $pods "requiredDuringSchedulingIgnoredDuringExecution" $terms -}}
{{- $_ := set $affinity "podAffinity" $pods -}}
{{- end -}}
{{- with $affinity -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{/*
What a probe does.
*/}}
{{- define "webapp.probeHandler" -}}
{{- if .Values.probe.path -}}
httpGet:
  path: {{ .Values.probe.path | quote }}
  port: {{ include "webapp.probePort" . }}
{{- else -}}
tcpSocket:
  port: {{ include "webapp.probePort" . }}
{{- end -}}
{{- end -}}

{{- define "webapp.probePort" -}}
{{- if gt (int .Values.probe.port) 0 -}}
{{- int .Values.probe.port -}}
{{- else -}}
http
{{- end -}}
{{- end -}}

{{/*
Security context of the pod.
*/}}
{{- define "webapp.podSecurityContext" -}}
{{- $context := .Values.securityContext -}}
{{- $restricted := eq $context.profile "Restricted" -}}
{{- $user := kindIs "invalid" $context.runAsUser | ternary -1 $context.runAsUser | int64 -}}
{{- $group := kindIs "invalid" $context.runAsGroup | ternary -1 $context.runAsGroup | int64 -}}
{{- $fsGroup := kindIs "invalid" $context.fsGroup | ternary -1 $context.fsGroup | int64 -}}
{{- if and (lt $fsGroup 0) .Values.storage.enabled -}}
{{- $fsGroup = ge $group 0 | ternary $group $user -}}
{{- end -}}
{{- if or $restricted (gt $user 0) -}}
runAsNonRoot: true
{{ end -}}
{{- if ge $user 0 -}}
runAsUser: {{ $user }}
{{ end -}}
{{- if ge $group 0 -}}
runAsGroup: {{ $group }}
{{ end -}}
{{- if ge $fsGroup 0 -}}
fsGroup: {{ $fsGroup }}
fsGroupChangePolicy: OnRootMismatch
{{ end -}}
seccompProfile:
  type: RuntimeDefault
{{- /* Without root, a port below 1024 is open to a process only with this. */}}
{{- if and (or $restricted (gt $user 0)) (lt (int .Values.port) 1024) }}
sysctls:
- name: net.ipv4.ip_unprivileged_port_start
  value: "0"
{{- end }}
{{- end -}}

{{/*
Security context of the container. Baseline keeps the capabilities that stock
images start with: to own files, to listen on a low port, and to give up root.
*/}}
{{- define "webapp.containerSecurityContext" -}}
allowPrivilegeEscalation: false
capabilities:
  drop:
  {{- if eq .Values.securityContext.profile "Restricted" }}
  - ALL
  {{- else }}
  - AUDIT_WRITE
  - MKNOD
  - NET_RAW
  - SETFCAP
  - SETPCAP
  - SYS_CHROOT
  {{- end }}
{{- if .Values.securityContext.readOnlyRootFilesystem }}
readOnlyRootFilesystem: true
{{- end }}
{{- end -}}
