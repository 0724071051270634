package imex

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Config is how the site's nodes join one IMEX domain.
type Config struct {
	// Join says who claims the nodes' IMEX channels: "holder" (the pods of the DaemonSet quoin-imex),
	// "slurmd" (Slurm's worker pods), "host" (nobody: the machines' own nvidia-imex.service serves) or
	// "none" (nodes join no domain). "auto" finds out: holder or slurmd if NVIDIA's DRA driver starts
	// daemons, else host on nodes whose service runs.
	Join string `yaml:"join"`
	// Namespace is the namespace of the ComputeDomain. Only its pods can claim a channel.
	Namespace string `yaml:"namespace"`
	// Name is the name of the ComputeDomain.
	Name string `yaml:"name"`
	// ClaimTemplate is channel.resourceClaimTemplate.name of the ComputeDomain.
	ClaimTemplate string `yaml:"claimTemplate"`
	// AllocationMode is channel.allocationMode of a ComputeDomain that is created. With "Single" a claiming
	// pod gets the device file of channel 0, with "All" the device files of all 2,048 channels.
	AllocationMode string `yaml:"allocationMode"`
	// HostChannels says that jobs use the machine's own device files in
	// /dev/nvidia-caps-imex-channels: a node without them is not ready. Leave it false with
	// switch/nvidia_imex, and for jobs in the pod that claims.
	HostChannels bool `yaml:"hostChannels"`
}

// The defaults of a Config, and what channel.allocationMode may be.
const (
	DefaultNamespace     = "quoin-node"
	DefaultName          = "quoin"
	DefaultClaimTemplate = "quoin-imex-channel"

	AllocateAll    = "All"
	AllocateSingle = "Single"
)

// FieldError is a value that a Config cannot have.
type FieldError struct {
	Key     string // such as join
	Message string // the value and what is wanted
}

// Error names the key below imex, the value and what is wanted.
func (e *FieldError) Error() string { return "imex." + e.Key + ": " + e.Message }

// Complete fills in the defaults. Its error joins one *FieldError for each bad value.
func (c Config) Complete() (Config, error) {
	c.Join = cmp.Or(c.Join, JoinAuto)
	c.Namespace = cmp.Or(c.Namespace, DefaultNamespace)
	c.Name = cmp.Or(c.Name, DefaultName)
	c.ClaimTemplate = cmp.Or(c.ClaimTemplate, DefaultClaimTemplate)
	c.AllocationMode = cmp.Or(c.AllocationMode, AllocateSingle)
	return c, c.check()
}

// Adopts reports whether nodes may join a domain that is not the configured one: no key says how
// nodes join, and none names a domain. A key with its default is not set.
func (c *Config) Adopts() bool {
	return c.Join == JoinAuto && c.Namespace == DefaultNamespace && c.Name == DefaultName && c.ClaimTemplate == DefaultClaimTemplate
}

// Claims reports whether pods may claim channels, so that nodes may join a ComputeDomain.
func (c *Config) Claims() bool { return c.Join != JoinNone && c.Join != JoinHost }

const (
	wantLabel     = "up to 63 lower-case letters, digits and dashes, no dash at an end"
	wantSubdomain = "up to 253 lower-case letters, digits, dashes and dots, a letter or digit at the ends and beside dots"
)

func (c Config) check() error {
	var wrong []error
	want := func(ok bool, key, value, wanted string) {
		if !ok {
			wrong = append(wrong, &FieldError{Key: key, Message: fmt.Sprintf("%q: want %s", value, wanted)})
		}
	}
	want(slices.Contains([]string{JoinAuto, JoinHolder, JoinSlurmd, JoinHost, JoinNone}, c.Join), "join", c.Join, "auto, holder, slurmd, host or none")
	want(c.Join != JoinSlurmd || c.Namespace != DefaultNamespace, "namespace", c.Namespace, "the namespace of the worker pods, because they claim: the driver refuses a claim in another namespace than its domain's")
	want(isLabel(c.Namespace), "namespace", c.Namespace, wantLabel)
	want(isSubdomain(c.Name), "name", c.Name, wantSubdomain)
	want(isSubdomain(c.ClaimTemplate), "claimTemplate", c.ClaimTemplate, wantSubdomain)
	want(c.AllocationMode == AllocateAll || c.AllocationMode == AllocateSingle, "allocationMode", c.AllocationMode, "Single or All")
	return errors.Join(wrong...)
}

// isLabel reports whether a text is one part of a DNS name in lower case, as the name of a namespace is.
func isLabel(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789-"
	return s != "" && len(s) <= 63 && strings.Trim(s, letters) == "" && s[0] != '-' && s[len(s)-1] != '-'
}

// isSubdomain reports whether a text is a DNS name in lower case, as the names of most objects are.
func isSubdomain(s string) bool {
	return len(s) <= 253 && !slices.ContainsFunc(strings.Split(s, "."), func(part string) bool { return !isLabel(part) })
}
