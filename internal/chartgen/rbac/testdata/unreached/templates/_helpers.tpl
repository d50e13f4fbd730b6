{{- define "unreached.ingress" -}}
{{- if .Capabilities.APIVersions.Has "networking.k8s.io/v1" -}}
networking.k8s.io/v1
{{- else -}}
extensions/v1beta1
{{- end -}}
{{- end -}}
{{- define "unreached.job" -}}
apiVersion: batch/v1
kind: Job
metadata: {name: {{ .Release.Name }}}
{{- end -}}
{{- define "unreached.claim" -}}
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
{{- end -}}
