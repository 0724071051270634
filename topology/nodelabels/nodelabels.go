// Package nodelabels turns the labels of a Kubernetes node into facts: the NVLink
// domain, the switches above the node, the number of its GPUs. It decides nothing;
// package placement does.
package nodelabels

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
)

// The labels that GPU Feature Discovery and the GPU Operator write.
const (
	Product = "nvidia.com/gpu.product"
	Count   = "nvidia.com/gpu.count"
	Present = "nvidia.com/gpu.present"
)

// The labels by which others mark nodes with NVIDIA GPUs.
const (
	onOKE            = "nvidia.com/gpu" // true
	onCoreWeave      = "gpu.nvidia.com/count"
	onCoreWeaveModel = "gpu.nvidia.com/model"             // the product
	instanceType     = "node.kubernetes.io/instance-type" // it may name the chip, such as BM.GPU.H100.8
	onGKE            = "cloud.google.com/gke-accelerator" // the product, of no TPU
	onGKECount       = "cloud.google.com/gke-accelerator-count"
	maxGPUs          = 1024
	minChip          = 4 // letters; shorter words of an instance type may be no chip: VM.Standard.A2.Flex has no GPU
)

// Keys name the labels to read. The zero value reads clique and GPUs only.
type Keys struct {
	// Domains are the keys of the NVLink domain beside topology.CliqueLabel. Auto stands for all
	// known keys.
	Domains []string
	// Tiers are the keys of the switches above a node, nearest first. Auto alone
	// stands for the keys of all known writers.
	Tiers []string
}

// Read returns the facts in the labels. A malformed value becomes a problem, never
// a domain.
func Read(labels map[string]string, keys Keys) topology.Labels {
	out := topology.Labels{Product: product(cmp.Or(labels[Product], labels[onGKE], labels[onCoreWeaveModel])), MIG: hasMIG(labels)}
	if chip, _, _ := fabric.Bounds(nil).Of(labels[instanceType]); out.Product == "" && len(chip) >= minChip {
		out.Product = chip
	}
	if len(labels) == 0 {
		return out
	}
	if v, ok := labels[topology.CliqueLabel]; ok && v != "" {
		c, err := topology.ParseClique(v)
		switch {
		case err == nil:
			out.Clique = c
		case errors.Is(err, topology.ErrNoDomain) && fabric.Bounds(nil).EndInside(out.Product): // as it should be
		case errors.Is(err, topology.ErrNoDomain):
			problem(&out, topology.ReasonLabelWithoutDomain, topology.CliqueLabel, err.Error())
		default:
			problem(&out, topology.ReasonCliqueMalformed, topology.CliqueLabel, err.Error())
		}
	}
	for _, key := range keys.Domains {
		if key != Auto {
			readDomain(&out, key, labels[key])
			continue
		}
		for _, key := range domainKeys {
			readDomain(&out, key, labels[key])
		}
		if _, gpus, _ := fabric.Bounds(nil).Of(out.Product); labels[onGKESubblock] != "" && gpus > 0 {
			readDomain(&out, onGKESubblock, labels[onGKESubblock])
		}
	}
	out.GPUs = count(labels, &out)
	readTiers(&out, labels, keys.Tiers)
	return out
}

// readDomain takes a value in the form of a clique as a clique, because some
// writers put one there. It takes any other value as it is.
func readDomain(out *topology.Labels, key, value string) {
	if value == "" || slices.ContainsFunc(out.Domains, func(d topology.Domain) bool { return d.Key == key }) {
		return
	}
	c, err := topology.ParseClique(value)
	switch {
	case err == nil && out.Clique.IsZero():
		out.Clique = c
	case err == nil && c != out.Clique:
		problem(out, topology.ReasonLabelDiffers, key, "clique "+c.String()+"; a label of higher precedence names "+out.Clique.String()+", which is followed")
	case err == nil:
	case (errors.Is(err, topology.ErrNoDomain) || meansNothing(value)) && fabric.Bounds(nil).EndInside(out.Product): // as it should be
	case errors.Is(err, topology.ErrNoDomain) || meansNothing(value):
		problem(out, topology.ReasonLabelWithoutDomain, key, strconv.Quote(value)+" is no NVLink domain")
	default:
		out.Domains = append(out.Domains, topology.Domain{Key: key, Value: value})
	}
}

// readTiers reads the configured tiers, or the tiers of every known writer.
func readTiers(out *topology.Labels, labels map[string]string, keys []string) {
	if len(keys) != 1 || keys[0] != Auto {
		configured := tierSource{keys: keys}
		out.Tiers = configured.read(labels)
		return
	}
	for i := range tierSources {
		tiers := tierSources[i].read(labels)
		switch {
		case tiers == nil:
		case out.Tiers == nil:
			out.Tiers, out.TierSource = tiers, tierSources[i].TierSource
		default:
			out.MoreTiers = append(out.MoreTiers, topology.SourceTiers{TierSource: tierSources[i].TierSource, Tiers: tiers})
		}
	}
}

// meansNothing reports whether a value means none: N/A and the like in any spelling
// of labels, or an all-zero UUID.
func meansNothing(v string) bool {
	if v == "" {
		return true
	}
	if !strings.ContainsRune("nNuU0-_.[", rune(v[0])) { // what all of them begin with
		return false
	}
	word := strings.ToLower(strings.Map(func(r rune) rune {
		if strings.ContainsRune("-_./[]", r) {
			return -1
		}
		return r
	}, v))
	switch word {
	case "", "na", "nana", "none", "null", "nil", "unknown", "undefined", "notavailable", "noimdsdata":
		return true
	}
	return len(word) == 32 && strings.Trim(word, "0") == ""
}

func problem(out *topology.Labels, reason, key, message string) {
	out.Problems = append(out.Problems, topology.Finding{Reason: reason, Message: "label " + key + ": " + message})
}

// count returns the number of GPUs, 1 if the labels only say that there are some.
func count(labels map[string]string, out *topology.Labels) int {
	for _, key := range [...]string{Count, onCoreWeave} {
		v, ok := labels[key]
		if !ok {
			continue
		}
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 || n > maxGPUs {
			problem(out, topology.ReasonCountMalformed, key, fmt.Sprintf("%q: want a number of 0 to %d", v, maxGPUs))
			continue
		}
		return n
	}
	if labels[Present] == "true" || labels[onOKE] == "true" {
		return 1
	}
	if labels[onGKE] == "" {
		return 0
	}
	if n, err := strconv.Atoi(labels[onGKECount]); err == nil && n > 0 && n <= maxGPUs {
		return n
	}
	return 1
}

// hasMIG reports whether MIG is on: the product says so, or instances of a profile are counted. The label
// nvidia.com/mig.strategy says nothing: the GPU Operator sets it on nodes without MIG too.
func hasMIG(labels map[string]string) bool {
	for key, value := range labels {
		if key == Product && strings.Contains(value, migProduct) || IsMIGCount(key) && value != "0" {
			return true
		}
	}
	return false
}

// IsMIGCount reports whether a label counts MIG instances of a profile, such as nvidia.com/mig-1g.10gb.count.
// Labels does not have these keys, because profiles are many.
func IsMIGCount(key string) bool {
	return strings.HasPrefix(key, "nvidia.com/mig-") && strings.HasSuffix(key, ".count")
}

// migProduct is in the label of the product of GPUs that are cut into instances of one profile.
const migProduct = "-MIG-"

// product turns a label's product name back into NVML's: GPU Feature Discovery
// writes dashes for spaces and appends words after -MIG- and -SHARED.
func product(v string) string {
	v, _, _ = strings.Cut(v, migProduct)
	v = strings.TrimSuffix(v, "-SHARED")
	return strings.ReplaceAll(v, "-", " ")
}

// Labels returns the keys that Read uses, but for those of IsMIGCount, so that a watcher can drop the others.
func (k Keys) Labels() []string {
	keys := []string{topology.CliqueLabel, Product, Count, Present, onOKE, onCoreWeave, onCoreWeaveModel, onGKE, onGKECount, instanceType}
	for _, key := range k.Domains {
		if key == Auto {
			keys = append(append(keys, domainKeys...), onGKESubblock)
		} else {
			keys = append(keys, key)
		}
	}
	if len(k.Tiers) != 1 || k.Tiers[0] != Auto {
		return append(keys, k.Tiers...)
	}
	for i := range tierSources {
		keys = append(keys, tierSources[i].keys...)
	}
	return keys
}
