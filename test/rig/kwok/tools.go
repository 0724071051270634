//go:build tools

// Package tools names the program of kwok that the rig builds.
package tools

import _ "sigs.k8s.io/kwok/cmd/kwok"
