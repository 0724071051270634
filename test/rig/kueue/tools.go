//go:build tools

// Package tools names the module whose files the rig takes.
package tools

import _ "sigs.k8s.io/kueue/pkg/constants"
