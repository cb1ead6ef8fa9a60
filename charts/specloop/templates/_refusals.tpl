{{- /* Values that fit the schema one by one and not together: one sentence each, with the way out. */ -}}
{{- define "specloop.refusals" -}}
{{- $webhook := .Values.webhook }}
{{- $policies := .Values.networkPolicies }}
{{- if and $webhook.tls.clientCa (not $webhook.tls.secretName) }}
{{- fail "webhook.tls.clientCa needs webhook.tls.secretName: the Secret with tls.crt, tls.key and the ca.crt of the clients" }}
{{- end }}
{{- if and $webhook.enabled (not $webhook.tokenSecret.name) (not $webhook.tls.clientCa) }}
{{- fail "webhook.enabled needs webhook.tokenSecret.name or webhook.tls.clientCa, or anybody could post alerts" }}
{{- end }}
{{- if and $webhook.enabled (eq (int $webhook.port) (include "specloop.healthPort" . | int)) }}
{{- fail "webhook.port and settings.healthPort must differ: metrics and alerts have a port each" }}
{{- end }}
{{- if and .Values.live.createTokenSecrets (not .Values.namespaces) }}
{{- fail "live.createTokenSecrets needs namespaces: the chart makes the Secrets in those that it names" }}
{{- end }}
{{- if and $policies.enabled $webhook.enabled (not $policies.webhookFrom) }}
{{- fail "networkPolicies.webhookFrom must name who may post alerts, such as Alertmanager's pods" }}
{{- end }}
{{- range $name, $source := .Values.settings.sources }}
{{- if and $policies.enabled (eq (toString $source.type) "prometheus") (not $policies.prometheus.to) }}
{{- fail (printf "networkPolicies.prometheus.to must name the Prometheus of settings.sources.%s, or it could not be asked" $name) }}
{{- end }}
{{- end }}
{{- if and $policies.engines.enabled (not .Values.namespaces) }}
{{- fail "networkPolicies.engines.enabled needs namespaces: the chart makes a policy in each that it names" }}
{{- end }}
{{- if and $policies.engines.enabled (not $policies.engines.podSelector) }}
{{- fail "networkPolicies.engines.podSelector must say which pods are engines, such as {matchLabels: {app: llama}}" }}
{{- end }}
{{- if and .Values.monitoring.engineMonitor.enabled (not .Values.monitoring.engineMonitor.selector) }}
{{- fail "monitoring.engineMonitor.selector must say which pods are engines, such as {matchLabels: {app: llama}}" }}
{{- end }}
{{- end }}
