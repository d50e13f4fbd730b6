{{/*
Name of the database: what its objects are named after. It is the custom
resource's; the release's own where the chart is installed by hand.
*/}}
{{- define "database.name" -}}
{{- .Values.name | default .Release.Name -}}
{{- end -}}

{{/*
Secret that holds the superuser's name and password.
*/}}
{{- define "database.secretName" -}}
{{- .Values.credentials.secretName | default (printf "%s-credentials" (include "database.name" .)) -}}
{{- end -}}

{{- define "database.usernameKey" -}}
{{- ternary .Values.credentials.usernameKeyName "username" (not (empty .Values.credentials.secretName)) -}}
{{- end -}}

{{- define "database.passwordKey" -}}
{{- ternary .Values.credentials.passwordKeyName "password" (not (empty .Values.credentials.secretName)) -}}
{{- end -}}

{{- define "database.image" -}}
{{- .Values.image | default (printf "docker.io/library/postgres:%s" .Values.version) -}}
{{- end -}}

{{/*
Labels that select a database's pods. They are immutable in a StatefulSet, so
nothing that can change belongs here.
*/}}
{{- define "database.instanceLabels" -}}
app.kubernetes.io/name: database
app.kubernetes.io/instance: {{ include "database.name" . | quote }}
{{- end -}}

{{/*
Labels that select the pods of a component: primary, standby or backup.
Takes a dict of root and component.
*/}}
{{- define "database.selectorLabels" -}}
{{ include "database.instanceLabels" .root }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/*
Labels of pods. Takes a dict of root and component.
*/}}
{{- define "database.podLabels" -}}
app: {{ include "database.name" .root | quote }}
{{ include "database.selectorLabels" . }}
{{- end -}}

{{/*
Labels of what outlives the release: nothing of the version that made it.
Takes a dict of root and component.
*/}}
{{- define "database.keptLabels" -}}
{{ include "database.podLabels" . }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
chartgate.dev/database: {{ include "database.name" .root | quote }}
{{- end -}}

{{/*
Labels of every other object. Takes a dict of root and component.
*/}}
{{- define "database.labels" -}}
{{ include "database.podLabels" . }}
app.kubernetes.io/part-of: database
app.kubernetes.io/version: {{ .root.Values.version | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{/*
Selector of all servers, as matchLabels and matchExpressions.
*/}}
{{- define "database.serverSelector" -}}
matchLabels:
  {{- include "database.instanceLabels" . | nindent 2 }}
matchExpressions:
- key: app.kubernetes.io/component
  operator: In
  values: [primary, standby]
{{- end -}}

{{/*
Security context of a container, as the restricted pod security profile asks for.
*/}}
{{- define "database.containerSecurityContext" -}}
allowPrivilegeEscalation: false
capabilities:
  drop:
  - ALL
readOnlyRootFilesystem: true
{{- end -}}

{{/*
What all pods have in common. 999 is the user postgres of the official image.
*/}}
{{- define "database.podDefaults" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 999
  runAsGroup: 999
  fsGroup: 999
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
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
{{- end -}}

{{/*
What the scripts read.
*/}}
{{- define "database.env" -}}
- name: POSTGRES_USER
  valueFrom:
    secretKeyRef:
      name: {{ include "database.secretName" . | quote }}
      key: {{ include "database.usernameKey" . | quote }}
- name: POSTGRES_PASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ include "database.secretName" . | quote }}
      key: {{ include "database.passwordKey" . | quote }}
- name: POSTGRES_DB
  value: {{ .Values.database | quote }}
- name: PGDATA
  value: /var/lib/postgresql/data/pgdata
- name: PRIMARY_HOST
  value: {{ include "database.name" . | quote }}
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
{{- end -}}

{{/*
Digest of the scripts that servers run: another one makes other pods.
*/}}
{{- define "database.scriptsDigest" -}}
{{- $all := "" -}}
{{- range $path, $_ := .Files.Glob "scripts/*" -}}
{{- if not (hasSuffix "backup.sh" $path) -}}
{{- $all = printf "%s%s\n%s\n" $all $path ($.Files.Get $path) -}}
{{- end -}}
{{- end -}}
{{- $all | sha256sum -}}
{{- end -}}

{{/*
A StatefulSet of servers. Takes a dict of root, component (primary or standby),
name and replicas. Nothing that can change may get into its volumeClaimTemplates
but the size, which the operator sees to.
*/}}
{{- define "database.servers" -}}
{{- $name := include "database.name" .root -}}
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ .name | quote }}
  labels:
    {{- include "database.labels" . | nindent 4 }}
spec:
  replicas: {{ .replicas }}
  serviceName: {{ $name }}-headless
  {{- /* A server waits for no other one: each comes back on its own. */}}
  podManagementPolicy: Parallel
  revisionHistoryLimit: 3
  updateStrategy:
    type: RollingUpdate
  persistentVolumeClaimRetentionPolicy:
    whenDeleted: Retain
    whenScaled: Retain
  selector:
    matchLabels:
      {{- include "database.selectorLabels" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "database.podLabels" . | nindent 8 }}
      annotations:
        chartgate.dev/scripts: {{ include "database.scriptsDigest" .root }}
    spec:
      {{- include "database.podDefaults" .root | nindent 6 }}
      {{- with .root.Values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: ScheduleAnyway
        labelSelector:
          {{- include "database.serverSelector" .root | nindent 10 }}
      {{- /* A clean shutdown writes a checkpoint, and that takes its time. */}}
      terminationGracePeriodSeconds: 120
      containers:
      - name: postgres
        image: {{ include "database.image" .root | quote }}
        imagePullPolicy: IfNotPresent
        command: [bash, /opt/chartgate/start.sh]
        env:
        {{- include "database.env" .root | nindent 8 }}
        - name: ROLE
          value: {{ .component }}
        - name: PG_VERSION_WANTED
          value: {{ .root.Values.version | quote }}
        - name: STANDBY_HOST
          value: {{ printf "%s-standby-ORDINAL.%s-headless" $name $name | quote }}
        ports:
        - name: postgresql
          containerPort: 5432
          protocol: TCP
        startupProbe:
          exec:
            command: [bash, /opt/chartgate/live.sh]
          periodSeconds: 2
          timeoutSeconds: 15
          failureThreshold: 150
        livenessProbe:
          exec:
            command: [bash, /opt/chartgate/live.sh]
          periodSeconds: 20
          timeoutSeconds: 15
          failureThreshold: 3
        readinessProbe:
          exec:
            command: [bash, /opt/chartgate/ready.sh]
          periodSeconds: 5
          timeoutSeconds: 5
          failureThreshold: 3
        lifecycle:
          preStop:
            exec:
              command: [bash, /opt/chartgate/stop.sh]
        {{- with .root.Values.resources }}
        resources:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        securityContext:
          {{- include "database.containerSecurityContext" .root | nindent 10 }}
        volumeMounts:
        - name: data
          mountPath: /var/lib/postgresql/data
        - name: scripts
          mountPath: /opt/chartgate
          readOnly: true
        - name: run
          mountPath: /var/run/postgresql
        - name: tmp
          mountPath: /tmp
        - name: shm
          mountPath: /dev/shm
      {{- if .root.Values.monitoring.enabled }}
      - name: metrics
        image: {{ .root.Values.monitoring.image | quote }}
        imagePullPolicy: IfNotPresent
        env:
        - name: DATA_SOURCE_URI
          value: localhost:5432/postgres?sslmode=disable
        - name: DATA_SOURCE_USER
          valueFrom:
            secretKeyRef:
              name: {{ include "database.secretName" .root | quote }}
              key: {{ include "database.usernameKey" .root | quote }}
        - name: DATA_SOURCE_PASS
          valueFrom:
            secretKeyRef:
              name: {{ include "database.secretName" .root | quote }}
              key: {{ include "database.passwordKey" .root | quote }}
        ports:
        - name: metrics
          containerPort: 9187
          protocol: TCP
        resources:
          requests:
            cpu: 10m
            memory: 32Mi
          limits:
            memory: 128Mi
        securityContext:
          {{- include "database.containerSecurityContext" .root | nindent 10 }}
      {{- end }}
      volumes:
      - name: scripts
        configMap:
          name: {{ $name }}-scripts
      - name: run
        emptyDir:
          medium: Memory
          sizeLimit: 16Mi
      - name: tmp
        emptyDir: {}
      {{- /* The runtime's 64 MiB are too little for parallel queries. */}}
      - name: shm
        emptyDir:
          medium: Memory
  volumeClaimTemplates:
  - apiVersion: v1
    kind: PersistentVolumeClaim
    metadata:
      name: data
      labels:
        {{- include "database.podLabels" . | nindent 8 }}
        chartgate.dev/database: {{ $name | quote }}
    spec:
      accessModes:
      - ReadWriteOnce
      {{- with .root.Values.storage.className }}
      storageClassName: {{ . | quote }}
      {{- end }}
      resources:
        requests:
          storage: {{ .root.Values.storage.size | quote }}
{{- end -}}
