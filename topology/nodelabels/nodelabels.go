// Package nodelabels reads what the labels of a Kubernetes node say of its
// hardware: the NVLink domain, the switches above it, how many GPUs it has. It
// decides nothing; package topology does.
package nodelabels

import (
	"errors"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// The labels that GPU Feature Discovery and the GPU Operator write.
const (
	Clique  = "nvidia.com/gpu.clique"
	Product = "nvidia.com/gpu.product"
	Count   = "nvidia.com/gpu.count"
	Present = "nvidia.com/gpu.present"
)

// Keys name the labels to read. The zero value reads the clique and the GPUs,
// and no tiers.
type Keys struct {
	// Tiers are the keys of the switches above a node, nearest first.
	Tiers []string
}

// DefaultTiers are the keys that Topograph writes, nearest first.
var DefaultTiers = []string{
	"network.topology.nvidia.com/leaf",
	"network.topology.nvidia.com/spine",
	"network.topology.nvidia.com/core",
}

// Read returns what the labels say. A value that makes no sense becomes a
// problem, never a domain.
func Read(labels map[string]string, keys Keys) topology.Labels {
	out := topology.Labels{Product: product(labels[Product])}
	if v, ok := labels[Clique]; ok && v != "" {
		c, err := topology.ParseClique(v)
		switch {
		case err == nil:
			out.Clique = c
		case errors.Is(err, topology.ErrNoDomain):
			out.Problems = append(out.Problems, topology.Problem{Reason: "CliqueLabelWithoutDomain", Message: "label " + Clique + ": " + err.Error()})
		default:
			out.Problems = append(out.Problems, topology.Problem{Reason: "CliqueLabelMalformed", Message: "label " + Clique + ": " + err.Error()})
		}
	}
	out.GPUs = count(labels, &out.Problems)
	for _, key := range keys.Tiers {
		v := labels[key]
		if v == "" {
			break
		}
		out.Tiers = append(out.Tiers, v)
	}
	return out
}

// count returns the number of GPUs, 1 where a label says only that there are
// some.
func count(labels map[string]string, problems *[]topology.Problem) int {
	v, ok := labels[Count]
	if !ok {
		if labels[Present] == "true" {
			return 1
		}
		return 0
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 || n > 1024 {
		*problems = append(*problems, topology.Problem{Reason: "CountLabelMalformed",
			Message: "label " + Count + ": " + strconv.Quote(v) + ": want a number of 0 to 1024"})
		return 0
	}
	return n
}

// product turns a label's product name back into NVML's: GPU Feature Discovery
// writes dashes for spaces and appends words after -MIG- and -SHARED.
func product(v string) string {
	v, _, _ = strings.Cut(v, "-MIG-")
	v = strings.TrimSuffix(v, "-SHARED")
	return strings.ReplaceAll(v, "-", " ")
}

// Labels are all keys that Read looks at, so that a watcher can leave out the
// others.
func (k Keys) Labels() []string {
	return append([]string{Clique, Product, Count, Present}, k.Tiers...)
}
