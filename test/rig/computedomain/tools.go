//go:build tools

// Package tools names the program of NVIDIA's DRA driver that the rig builds.
package tools

import _ "sigs.k8s.io/dra-driver-nvidia-gpu/cmd/compute-domain-controller"
