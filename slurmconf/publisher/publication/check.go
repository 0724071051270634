package publication

import (
	"fmt"
	"maps"
	"math"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// FieldError is a value that a publication cannot have.
type FieldError struct {
	Name    string // of the publication
	Key     string // such as nodes.selector
	Message string // the value and what is allowed
}

// Error names the publication, the key, the value and what is allowed.
func (e *FieldError) Error() string {
	return fmt.Sprintf("publication %q: %s: %s", e.Name, e.Key, e.Message)
}

// check compiles a complete publication and says what is wrong with it, and what is allowed.
func (c *Cluster) check(selector func(text string) (inputs.Selector, error)) []*FieldError {
	var wrong []*FieldError
	fail := func(key, message string) {
		wrong = append(wrong, &FieldError{Name: c.Name, Key: key, Message: message})
	}
	bad := func(key string, value any, want string) {
		fail(key, fmt.Sprintf("%q: want %s", fmt.Sprint(value), want))
	}
	var err error
	if c.SlurmVersion != "" {
		if c.Release, err = slurmconf.ParseRelease(c.SlurmVersion); err != nil {
			fail(keySlurmVersion, err.Error())
		}
	}
	c.Follow(0, nil)
	c.checkFields(bad)
	if c.YAML && c.named() && !c.Release.Does(slurmconf.TopologyYAML) {
		bad("format", c.Format, "conf with Slurm "+c.SlurmVersion+": topology.yaml needs 25.05 or newer")
	}
	if !inputs.IsDNSLabel(c.Name) { // it names the stored plan
		bad("name", c.Name, "up to 63 lower-case letters, digits and dashes, no dash at an end")
	}
	if !inputs.IsDNSLabel(c.Namespace) {
		bad("namespace", c.Namespace, "up to 63 lower-case letters, digits and dashes, no dash at an end")
	}
	if !inputs.IsDNSName(c.ConfigMap) {
		bad("configMap", c.ConfigMap, "lower-case letters, digits, dashes and dots, a letter or digit at the ends and beside dots")
	}
	c.checkPlaces(fail, bad)
	c.checkMembership(bad)
	var nodes inputs.Selector
	if c.Nodes.Selector != "" {
		if nodes, err = selector(c.Nodes.Selector); err != nil {
			bad("nodes.selector", c.Nodes.Selector, "a label selector such as key=value: "+err.Error())
		}
	}
	c.Rules = inputs.NewRules(inputs.Config{Selector: nodes, Slinky: c.Nodes.Slinky, SlurmNames: c.SlurmNames, ParseSelector: selector, Namespace: c.Namespace,
		Labels: c.LabelKeys(), FabricFiles: c.FabricFiles}, fail)
	c.checkCables(selector, bad)
	c.checkGres(fail, bad)
	c.Slurm.check(bad)
	c.checkNumbers(fail, bad)
	return wrong
}

// named reports whether slurmVersion is a release. Checks of other keys go by that release alone, because
// the one that runs is not known yet.
func (c *Cluster) named() bool { return c.SlurmVersion != "" && c.Release != 0 }

// checkNumbers checks shares and sizes.
func (c *Cluster) checkNumbers(fail func(key, message string), bad func(key string, value any, want string)) {
	if *c.MaxChange < 0 || *c.MaxChange > 1 || math.IsNaN(*c.MaxChange) {
		bad("maxChange", *c.MaxChange, "a share of 0 to 1")
	}
	for _, chip := range slices.Sorted(maps.Keys(c.MaxDomainGPUs)) {
		if word, _, known := fabric.Bounds(c.MaxDomainGPUs).Of(chip); !known || word != chip {
			bad("maxDomainGPUs", chip, "one word of the product in capital letters, such as GB200")
		} else if c.MaxDomainGPUs[chip] < 0 {
			bad("maxDomainGPUs", c.MaxDomainGPUs[chip], "a number of GPUs, or 0 if NVLink ends in the machine")
		}
	}
	if err := placement.CheckSizeClasses(c.SizeClasses); err != nil {
		fail("sizeClasses", err.Error())
	} else if len(c.SizeClasses) > 0 && c.BaseBlockSize > 0 {
		bad("sizeClasses", c.SizeClasses, "none with baseBlockSize, which is one size for all racks")
	}
	if c.BaseBlockSize < 0 || c.BaseBlockSize > placement.MaxBlockSize {
		bad("baseBlockSize", c.BaseBlockSize, fmt.Sprintf("1 to %d, or 0 to choose it from the domains", placement.MaxBlockSize))
	} else if err := placement.CheckBlockSizes(c.BaseBlockSize, c.BlockSizes); err != nil {
		fail("blockSizes", err.Error())
	}
}

// checkPlaces checks what says where nodes are put.
func (c *Cluster) checkPlaces(fail func(key, message string), bad func(key string, value any, want string)) {
	if err := placement.CheckParentBlocks(c.ParentBlocks); err != nil {
		fail("parentBlocks", err.Error())
	}
	if c.RootSwitch != "" && topology.SlurmName(c.RootSwitch) != c.RootSwitch {
		bad("rootSwitch", c.RootSwitch, "letters, digits, dashes and underscores, 63 at most")
	}
	if c.Fabrics != "" && c.RootSwitch != "" {
		bad("fabrics", c.Fabrics, "nothing beside rootSwitch, which joins them")
	}
	c.checkDefaultTopology(bad)
}

// checkCables checks what says which cables are read, and of which adapters.
func (c *Cluster) checkCables(selector func(text string) (inputs.Selector, error), bad func(key string, value any, want string)) {
	for i, entry := range c.FabricFiles {
		of, isMaps := strings.CutPrefix(entry, inputs.FabricMaps)
		switch {
		case slices.Contains(c.FabricFiles[:i], entry):
			bad("fabricFiles", entry, "each entry once")
		case !isMaps && (!path.IsAbs(entry) || path.Clean(entry) != entry):
			bad("fabricFiles", entry, "the absolute path of a file or of a directory, or configmaps:SELECTOR")
		case isMaps && strings.TrimSpace(of) == "":
			bad("fabricFiles", entry, "a label selector after configmaps:, such as configmaps:quoin.dev/fabric=a")
		case isMaps:
			if _, err := selector(of); err != nil {
				bad("fabricFiles", entry, "a label selector after configmaps:, such as configmaps:quoin.dev/fabric=a: "+err.Error())
			}
		}
	}
	for _, pattern := range c.ComputeAdapters {
		if err := topology.CheckAdapterPatterns([]string{pattern}); err != nil {
			bad("computeAdapters", pattern, "a name of an adapter such as mlx5_0, or a pattern such as mlx5_*")
		}
	}
}

// fabricsSeparate is the value of fabrics by which switches without a common one are separate.
const fabricsSeparate = "separate"

func (c *Cluster) checkDefaultTopology(bad func(key string, value any, want string)) {
	blocks := slurmconf.NamesOf(c.BlocksBy == "leaf", true).Blocks
	may := []string{"", blocks, topology.FabricTopology, topology.FlatTopology}
	switch slurmconf.Kind(c.Topology) {
	case slurmconf.KindBlock:
		may = slices.Delete(may, 2, 3)
	case slurmconf.KindTree:
		may = slices.Delete(may, 1, 2)
	}
	switch {
	case c.DefaultTopology != "" && !c.YAML:
		bad("defaultTopology", c.DefaultTopology, "none with format conf: topology.conf has one topology")
	case !slices.Contains(may, c.DefaultTopology) && !slices.Contains(may, topology.BlockFamily(c.DefaultTopology)):
		bad("defaultTopology", c.DefaultTopology, strings.Join(may[1:], ", ")+", or none for the first there is")
	case c.FlatTopology && !c.YAML:
		bad("flatTopology", c.FlatTopology, "false with format conf: a flat Slurm needs no topology.conf, only a slurm.conf without TopologyPlugin")
	}
}

func (c *Cluster) checkGres(fail func(key, message string), bad func(key string, value any, want string)) {
	for _, product := range slices.Sorted(maps.Keys(c.Gres.Types)) {
		if err := gres.CheckType(c.Gres.Types[product]); err != nil {
			fail("gres.types", fmt.Sprintf("%q: %v", product, err))
		}
	}
	var err error
	if c.leftOut, err = gpusByNode(c.Gres.LeaveOut); err != nil {
		fail("gres.leaveOut", err.Error())
	}
	for _, node := range slices.Sorted(maps.Keys(c.Gres.LeaveOut)) {
		for _, gpu := range c.Gres.LeaveOut[node] {
			if err := gres.CheckLeaveOut(gpu); err != nil {
				fail("gres.leaveOut", fmt.Sprintf("%q: %v", node, err))
			}
		}
	}
	if c.Gres.AutoDetect == gres.AutoDetectFull && c.named() && !c.Release.Does(slurmconf.AutoDetectFull) {
		bad("gres.autoDetect", c.Gres.AutoDetect, "off, nvidia or nvml with Slurm "+c.SlurmVersion+": full needs 26.05 or newer")
	}
}

// check checks how Slurm is asked.
func (s *Slurm) check(bad func(key string, value any, want string)) {
	u, err := url.Parse(s.URL)
	web := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
	local := err == nil && u.Scheme == "unix" && u.Host == "" && strings.HasPrefix(u.Path, "/")
	switch {
	case s.URL != "" && !web && !local, s.URL != "" && (u.User != nil || u.RawQuery != "" || u.Fragment != ""):
		bad("slurm.url", s.URL, "http://HOST:PORT, https://HOST:PORT or unix:/PATH")
	case s.URL != "" && s.Scontrol != "":
		bad("slurm.scontrol", s.Scontrol, "none beside slurm.url")
	case s.URL == "" && s.TokenFile != "":
		bad("slurm.tokenFile", s.TokenFile, "none without slurm.url")
	case s.URL == "" && s.Scontrol == "" && s.Reconfigure:
		bad("slurm.reconfigure", s.Reconfigure, "false without slurm.url and slurm.scontrol")
	}
}
