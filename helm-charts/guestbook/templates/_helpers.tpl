{{/*
Name of the frontend's objects: the release name, so that two guestbooks live
in one namespace. A release name may hold dots or begin with a digit, a Service
name may not: such a name is rewritten and gets a hash, so that no two releases
end up with the same one.
*/}}
{{- define "guestbook.fullname" -}}
{{- $name := .Release.Name | replace "." "-" -}}
{{- if not (regexMatch "^[a-z]" $name) -}}
{{- $name = printf "gb-%s" $name -}}
{{- end -}}
{{- if or (ne $name .Release.Name) (gt (len $name) 63) -}}
{{- $name = printf "%s-%s" ($name | trunc 46 | trimSuffix "-") (.Release.Name | sha256sum | trunc 6) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{/*
Name of a component's objects: the full name and a suffix, within the 63
characters of a Service name.
Takes a dict of root (the top-level context) and suffix.
*/}}
{{- define "guestbook.componentName" -}}
{{- $full := include "guestbook.fullname" .root -}}
{{- $name := printf "%s-%s" $full .suffix -}}
{{- if gt (len $name) 63 -}}
{{- $room := sub 55 (len .suffix) | int -}}
{{- $name = printf "%s-%s-%s" ($full | trunc $room | trimSuffix "-") (.root.Release.Name | sha256sum | trunc 6) .suffix -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{- define "guestbook.leaderName" -}}
{{- include "guestbook.componentName" (dict "root" . "suffix" "redis-leader") -}}
{{- end -}}

{{- define "guestbook.followerName" -}}
{{- include "guestbook.componentName" (dict "root" . "suffix" "redis-follower") -}}
{{- end -}}

{{- define "guestbook.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "guestbook.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/*
Labels that select a component's pods. They are immutable in a Deployment, so
nothing that can change belongs here.
Takes a dict of root and component.
*/}}
{{- define "guestbook.selectorLabels" -}}
app.kubernetes.io/name: guestbook
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/*
Labels of every object. Takes a dict of root and component.
*/}}
{{- define "guestbook.labels" -}}
{{ include "guestbook.selectorLabels" . }}
app.kubernetes.io/part-of: guestbook
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{/*
Security context of a container, as the restricted pod security profile asks for.
*/}}
{{- define "guestbook.containerSecurityContext" -}}
allowPrivilegeEscalation: false
capabilities:
  drop:
  - ALL
readOnlyRootFilesystem: true
{{- end -}}

{{/*
What the pods of all components have in common.
*/}}
{{- define "guestbook.podDefaults" -}}
automountServiceAccountToken: false
enableServiceLinks: false
serviceAccountName: {{ include "guestbook.serviceAccountName" . }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
{{- toYaml . | nindent 0 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
{{- toYaml . | nindent 0 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/*
The Redis container of leader and followers.
Takes a dict of root, args (a list) and resources.
*/}}
{{- define "guestbook.redisContainer" -}}
name: redis
image: {{ printf "%s:%s" .root.Values.redis.image.repository .root.Values.redis.image.tag | quote }}
imagePullPolicy: {{ .root.Values.redis.image.pullPolicy }}
command:
- redis-server
args:
- --port
- "6379"
- --dir
- /data
- --protected-mode
- "no"
{{- range .args }}
- {{ . | quote }}
{{- end }}
ports:
- name: redis
  containerPort: 6379
  protocol: TCP
readinessProbe:
  tcpSocket:
    port: redis
  periodSeconds: 5
livenessProbe:
  tcpSocket:
    port: redis
  initialDelaySeconds: 10
  periodSeconds: 10
{{- with .resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- include "guestbook.containerSecurityContext" .root | nindent 2 }}
volumeMounts:
- name: data
  mountPath: /data
{{- end -}}

{{/*
Security context of the Redis pods: 999 is the redis user of the official image.
*/}}
{{- define "guestbook.redisPodSecurityContext" -}}
runAsNonRoot: true
runAsUser: 999
runAsGroup: 999
fsGroup: 999
seccompProfile:
  type: RuntimeDefault
{{- end -}}
