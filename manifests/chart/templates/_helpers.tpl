{{- define "quoin.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* What names of objects begin with. values.yaml says which names stay as they are. */}}
{{- define "quoin.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride }}
{{- else if .Values.nameOverride -}}
{{ .Release.Name }}-{{ .Values.nameOverride }}
{{- else -}}
quoin
{{- end -}}
{{- end -}}

{{/*
Labels by which the pods of a component are selected, here and in the programs. A selector cannot
be changed.
*/}}
{{- define "quoin.labels" -}}
{app.kubernetes.io/name: quoin, app.kubernetes.io/component: {{ . }}}
{{- end -}}

{{/*
Labels of an object of a component, and more of them. Pods do not get these, because a new release of
the chart would start each pod again. Helm itself adds app.kubernetes.io/managed-by: so applied YAML
does not say that it is Helm's.
*/}}
{{- define "quoin.objectLabels" -}}
{{- $root := index . 0 -}}
{{- $labels := include "quoin.labels" (index . 1) | fromYaml -}}
{{- $_ := set $labels "app.kubernetes.io/version" $root.Chart.AppVersion -}}
{{- $_ := set $labels "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_") -}}
{{- toJson (merge $labels (first (slice . 2) | default dict)) -}}
{{- end -}}

{{- define "quoin.podLabels" -}}
{{- $component := index . 1 -}}
{{- toJson (merge (include "quoin.labels" $component | fromYaml) ((index (index . 0).Values $component).podLabels | default dict)) -}}
{{- end -}}

{{/* The service account of a component. */}}
{{- define "quoin.account" -}}
{{- (index (index . 0).Values (index . 1)).serviceAccount.name | default (printf "%s-%s" (include "quoin.fullname" (index . 0)) (index . 1)) -}}
{{- end -}}

{{/* imex of the configuration, with the namespace filled in. */}}
{{- define "quoin.imex" -}}
{{- toYaml (merge (dict) (.Values.config.imex | default dict) (dict "namespace" .Values.nodeNamespace)) -}}
{{- end -}}

{{- define "quoin.imexNamespace" -}}
{{- (.Values.config.imex | default dict).namespace | default .Values.nodeNamespace -}}
{{- end -}}

{{- define "quoin.imexJoin" -}}
{{- (.Values.config.imex | default dict).join | default "auto" -}}
{{- end -}}

{{/*
The publications as the publisher sees them, as JSON below "items": publicationDefaults, then the
publication, with the namespace and the ConfigMap filled in.
*/}}
{{- define "quoin.publications" -}}
{{- $items := list -}}
{{- range $name, $publication := .Values.config.publications | default (dict "default" dict) -}}
{{- $item := mergeOverwrite (dict) (deepCopy ($.Values.config.publicationDefaults | default dict)) (deepCopy ($publication | default dict)) (dict "name" $name) -}}
{{- if not $item.namespace }}{{ $_ := set $item "namespace" "slurm" }}{{ end -}}
{{- if not $item.configMap }}{{ $_ := set $item "configMap" (eq $name "default" | ternary "quoin-slurm" (printf "quoin-slurm-%s" $name)) }}{{ end -}}
{{- $items = append $items $item -}}
{{- end -}}
{{- toJson (dict "items" $items) -}}
{{- end -}}

{{/* The namespaces of the publications, each once. */}}
{{- define "quoin.slurmNamespaces" -}}
{{- $names := list -}}
{{- range (include "quoin.publications" . | fromJson).items -}}
{{- $names = append $names .namespace -}}
{{- end -}}
{{- toJson (dict "items" ($names | uniq | sortAlpha)) -}}
{{- end -}}

{{/*
The namespace whose worker pods a publication reads, or nothing: slurmNames is slinky,
slinky:CONTROLLER or slinky:NAMESPACE/CONTROLLER, nodes.slinky is CONTROLLER or
NAMESPACE/CONTROLLER.
*/}}
{{- define "quoin.slinkyNamespace" -}}
{{- $nodes := .nodes | default dict -}}
{{- $names := .slurmNames | default "" -}}
{{- $ref := "" -}}
{{- if $nodes.slinky -}}
{{- $ref = $nodes.slinky -}}
{{- else if eq $names "slinky" -}}
{{- $ref = "slinky" -}}
{{- else if hasPrefix "slinky:" $names -}}
{{- $ref = trimPrefix "slinky:" $names -}}
{{- end -}}
{{- if contains "/" $ref -}}
{{- first (splitList "/" $ref) -}}
{{- else if $ref -}}
{{- .namespace -}}
{{- end -}}
{{- end -}}

{{/* The security of a container that needs nothing. */}}
{{- define "quoin.nothing" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/*
Where a program serves, for its section of the configuration: the keys of the section, and what
the chart adds.
*/}}
{{- define "quoin.section" -}}
{{- $listen := dict "healthListen" ":9837" -}}
{{- with .root.Values.metrics.tlsSecret -}}
{{- $listen = merge $listen (dict "tlsCert" "/etc/quoin-tls/tls.crt" "tlsKey" "/etc/quoin-tls/tls.key" "metricsAuthorize" $.root.Values.metrics.authorize) -}}
{{- end -}}
{{- toYaml (merge (dict) (.section | default dict) $listen) -}}
{{- end -}}

{{/* The ports of a program: .listen is its key, or the default. */}}
{{- define "quoin.ports" -}}
{{- with .listen -}}
- {name: metrics, containerPort: {{ regexFind "[0-9]+$" . }}}
{{ end -}}
- {name: health, containerPort: {{ regexFind "[0-9]+$" (.health | default ":9837") }}}
{{- end -}}

{{- define "quoin.publisherConfig" -}}
imex:
  {{- include "quoin.imex" . | nindent 2 }}
publisher:
  {{- $section := .Values.config.publisher | default dict }}
  {{- /* In the pod only: kubectl port-forward reaches it. */}}
  {{- if not (hasKey $section "mapListen") }}{{ $section = merge (dict "mapListen" "127.0.0.1:9838") $section }}{{ end }}
  {{- include "quoin.section" (dict "root" . "section" $section) | nindent 2 }}
{{- with .Values.config.publicationDefaults }}
publicationDefaults:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.config.publications }}
publications:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "quoin.agentConfig" -}}
imex:
  {{- include "quoin.imex" . | nindent 2 }}
agent:
  {{- include "quoin.section" (dict "root" . "section" .Values.config.agent) | nindent 2 }}
{{- end -}}

{{/*
Matches whoever has the publisher's ClusterRole and is no administrator: the marks of that are
the verbs publish and override of NodeReports. The prefix of the name spares the API server the
question for kubelets, which write Nodes most.
*/}}
{{- define "quoin.isPublisher" -}}
- name: is-service-account
  expression: request.userInfo.username.startsWith("system:serviceaccount:")
- name: is-publisher
  expression: >-
    authorizer.group("quoin.dev").resource("nodereports").check("publish").allowed() &&
    !authorizer.group("quoin.dev").resource("nodereports").check("override").allowed()
{{- end -}}

{{/* How the Prometheus Operator scrapes /metrics of agent and publisher. */}}
{{- define "quoin.endpoint" -}}
interval: {{ .Values.podMonitor.interval }}
honorLabels: true # the label cluster is Slurm's, also if a target has one
{{- if .Values.metrics.tlsSecret }}
scheme: https
{{- end }}
{{- with .Values.podMonitor.tlsConfig }}
tlsConfig: {{ toJson . }}
{{- end }}
{{- with .Values.podMonitor.authorization }}
authorization: {{ toJson . }}
{{- end }}
{{- end -}}
