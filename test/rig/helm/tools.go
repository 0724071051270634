//go:build tools

// Package tools names the program of Helm that the rig builds.
package tools

import _ "helm.sh/helm/v4/cmd/helm"
