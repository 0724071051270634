package gres

import (
	"fmt"
	"strings"
)

// Naming is how a GPU's product becomes its Type.
type Naming string

// The ways of naming, each with its Type of "NVIDIA H100 80GB HBM3". The zero value
// is NamingModel.
const (
	// NamingModel is the product without its maker: h100_80gb_hbm3.
	NamingModel Naming = "model"
	// NamingFull is what Slurm's gpu/nvml plugin detects: nvidia_h100_80gb_hbm3.
	NamingFull Naming = "full"
	// NamingShort is the first words up to the model's number: h100.
	NamingShort Naming = "short"
)

// The values of Options.AutoDetect.
const (
	AutoDetectOff    = "off"
	AutoDetectNvidia = "nvidia"
	AutoDetectNVML   = "nvml"
	AutoDetectFull   = "full"
)

// Options are a site's choices for gres.conf. The zero value lists every GPU that
// a report names, without Cores, and lets the other nodes detect their GPUs.
type Options struct {
	Naming Naming
	// Types are the types of products that Naming does not name.
	Types map[string]string
	// SeveralSockets says that slurmctld takes cores of several whole sockets that are not all, as before
	// Slurm 25.05.
	SeveralSockets bool
	// Cores writes the cores of the socket that a GPU is at. slurm.conf must have the
	// sockets and cores of the machine: Slurm 26.05 drains a node whose Cores are no
	// socket of slurm.conf.
	Cores bool
	// LeaveOut are GPUs that Slurm does not get, by node: UUIDs and device files. Such a node
	// lists its GPUs, whatever AutoDetect says.
	LeaveOut map[string][]string
	// AutoDetect is how all nodes detect their GPUs; "off" means that none does. The
	// way nvidia does not see MIG instances: they are listed nevertheless.
	AutoDetect string
}

// TypeOf is the Type of the GPUs of a product.
func (o *Options) TypeOf(product string) string {
	if t := o.Types[product]; t != "" {
		return t
	}
	typ := ""
	switch o.Naming {
	case NamingFull:
		typ = normalType(product)
	case NamingShort:
		typ = shortType(product)
	default:
		typ = normalType(withoutMaker(product))
	}
	if typ == "" || typ[0] < 'a' || typ[0] > 'z' {
		return unlikeProduct + typ // in --gres=gpu:6000 the number would be a count
	}
	return typ
}

// unlikeProduct begins a Type that is no part of its product's name.
const unlikeProduct = "gpu_"

// migTypeOf names the MIG instances of a product, as gpu/nvml does.
func (o *Options) migTypeOf(product, profile string) string {
	return o.TypeOf(product) + "_" + normalType(profile)
}

// withoutMaker takes the first word off if it is NVIDIA.
func withoutMaker(product string) string {
	words := strings.Fields(product)
	if len(words) > 1 && strings.EqualFold(words[0], "nvidia") {
		words = words[1:]
	}
	return strings.Join(words, " ")
}

// normalType is lower case, with underscores for spaces and for what cannot be
// in a Type.
func normalType(product string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.' || r == '+' {
			return r
		}
		return '_'
	}, strings.Join(strings.Fields(strings.ToLower(product)), "_"))
}

// shortType is the model alone: the words up to the first word with a number. A dash
// ends a word too. "NVIDIA A100-SXM4-80GB" is a100, "NVIDIA RTX 6000 Ada Generation"
// is rtx_6000, "Tesla T4" is t4.
func shortType(product string) string {
	var words []string
	for _, w := range strings.FieldsFunc(withoutMaker(product), func(r rune) bool { return r == ' ' || r == '\t' || r == '-' }) {
		if len(words) == 0 && strings.EqualFold(w, "tesla") {
			continue
		}
		words = append(words, w)
		if strings.ContainsAny(w, "0123456789") {
			break
		}
	}
	return normalType(strings.Join(words, " "))
}

// CheckType refuses what cannot be a Type that jobs ask for, as in
// --gres=gpu:TYPE:COUNT.
func CheckType(typ string) error {
	const want = "want a letter and then letters, digits, '_', '-', '.' or '+', such as h100"
	if typ == "" {
		return fmt.Errorf("empty type: %s", want)
	}
	for i, r := range strings.ToLower(typ) {
		letter := r >= 'a' && r <= 'z'
		if !letter && (i == 0 || normalType(string(r)) != string(r)) {
			return fmt.Errorf("type %q: %s", typ, want)
		}
	}
	return nil
}
