module quoin.dev/rig/kueue

go 1.26.0

require sigs.k8s.io/kueue v0.15.0
