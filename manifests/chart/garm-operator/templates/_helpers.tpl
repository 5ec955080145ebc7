{{/* What all names begin with. */}}
{{- define "garm-operator.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "garm-operator.labels" -}}
app.kubernetes.io/name: garm-operator
app.kubernetes.io/part-of: garm-operator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* What tells our pods from those of others, another release in the namespace included. */}}
{{- define "garm-operator.selector" -}}
control-plane: controller-manager
{{- if ne (include "garm-operator.fullname" .) "garm-operator" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- end -}}

{{- define "garm-operator.account" -}}
{{- .Values.serviceAccount.name | default (printf "%s-controller-manager" (include "garm-operator.fullname" .)) -}}
{{- end -}}

{{- define "garm-operator.garmSecret" -}}
{{- .Values.garm.existingSecret | default (printf "%s-garm" (include "garm-operator.fullname" .)) -}}
{{- end -}}

{{- define "garm-operator.garmServer" -}}
{{- if .Values.garm.server -}}
{{- .Values.garm.server -}}
{{- else if .Values.garmServer.enabled -}}
{{- printf "http://%s-garm-server:9997" (include "garm-operator.fullname" .) -}}
{{- end -}}
{{- end -}}

{{/* A generated file with the names and the namespace of this release. */}}
{{- define "garm-operator.file" -}}
{{- $prefix := include "garm-operator.fullname" .root -}}
{{- .root.Files.Get .name
  | replace "garm-operator-webhook-" (printf "%s-webhook-" $prefix)
  | replace "garm-operator-validating-" (printf "%s-validating-" $prefix)
  | replace "garm-operator-mutating-" (printf "%s-mutating-" $prefix)
  | replace "namespace: garm-operator-system" (printf "namespace: %s" .root.Release.Namespace) -}}
{{- end -}}

{{/* Where cert-manager finds the CA. */}}
{{- define "garm-operator.caFrom" -}}
{{- printf "%s/%s-serving-cert" .Release.Namespace (include "garm-operator.fullname" .) -}}
{{- end -}}

{{- define "garm-operator.certSecret" -}}
{{- if eq .Values.certificates.source "existing" -}}
{{- .Values.certificates.existingSecret | required "certificates.existingSecret is required with certificates.source=existing" -}}
{{- else if eq (include "garm-operator.fullname" .) "garm-operator" -}}
webhook-server-cert
{{- else -}}
{{- printf "%s-webhook-server-cert" (include "garm-operator.fullname" .) -}}
{{- end -}}
{{- end -}}
