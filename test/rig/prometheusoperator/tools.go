//go:build tools

// Package tools names the module whose files the rig takes.
package tools

import _ "github.com/prometheus-operator/prometheus-operator/pkg/versionutil"
