{{/* The release's name, with the chart's name where it lacks it: what everything is called. */}}
{{- define "specloop.name" -}}
{{- $name := contains .Chart.Name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) -}}
{{- $name | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{/* What is in no namespace is called after the release's own, or two releases of one name would share it. Neither part has
a colon, so that no two come to the same. */}}
{{- define "specloop.clusterName" -}}
{{ include "specloop.name" . }}:{{ .Release.Namespace }}
{{- end }}

{{/* What tells this release's operators from other pods; these never change. */}}
{{- define "specloop.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ quote .Release.Name }}
{{- end }}

{{/* The same of the pod that `helm test` starts, which the Service must not lead to. */}}
{{- define "specloop.testSelector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}-test
app.kubernetes.io/instance: {{ quote .Release.Name }}
{{- end }}

{{- define "specloop.commonLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "specloop.labels" -}}
{{ include "specloop.selector" . }}
{{ include "specloop.commonLabels" . }}
{{- end }}

{{- define "specloop.image" -}}
{{ .Values.image | default (printf "specloop:%s" .Chart.AppVersion) }}
{{- end }}

{{/* What the health port speaks, which is also the name of the port. */}}
{{- define "specloop.scheme" -}}
{{ .Values.metrics.tlsSecret | empty | ternary "http" "https" }}
{{- end }}

{{- define "specloop.healthPort" -}}
{{ .Values.settings.healthPort | default 8080 | int }}
{{- end }}

{{/* The Service, as certificates and Alertmanager name it. */}}
{{- define "specloop.host" -}}
{{ include "specloop.name" . }}.{{ .Release.Namespace }}.svc
{{- end }}

{{/* What every container may do: the restricted level of the Pod Security Standards, and no writing. */}}
{{- define "specloop.containerSecurity" -}}
readOnlyRootFilesystem: true
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
{{- end }}

{{/* No user: the image has one by its number, and OpenShift gives each namespace a range of its own and refuses others. */}}
{{- define "specloop.podSecurity" -}}
runAsNonRoot: true
seccompProfile:
  type: RuntimeDefault
{{- end }}
