{{- /* A Go module has no folder that is called vendor, so the chart's own definitions are missing. These turn its DCGM scripts off, as its values do. */ -}}
{{- define "vendor.dcgm.enabled" }}{{ end -}}
{{- define "vendor.dcgm.nodesetHasGPU" }}{{ end -}}
{{- define "vendor.dcgm.jobMappingDir" }}{{ end -}}
{{- define "vendor.dcgm.prologName" }}{{ end -}}
{{- define "vendor.dcgm.epilogName" }}{{ end -}}
