package publisher

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// Complete fills in the defaults of all publications and checks them together.
// Its error joins one *FieldError for each value that cannot be.
func Complete(pubs []Publication) ([]Publication, error) {
	if len(pubs) == 0 {
		pubs = []Publication{DefaultPublication()}
	}
	var wrong []error
	names, places := map[string]bool{}, map[string]string{}
	for i := range pubs {
		p := &pubs[i]
		p.complete()
		found := p.check()
		if names[p.Name] {
			found = append(found, &FieldError{Name: p.Name, Key: "name", Message: "another publication has the same name: give each its own"})
		}
		if other, taken := places[p.key()]; taken {
			found = append(found, &FieldError{Name: p.Name, Key: "configMap", Message: fmt.Sprintf("%s also belongs to publication %q: give each its own", p.key(), other)})
		}
		names[p.Name], places[p.key()] = true, p.Name
		for _, e := range found {
			e.Index = i
			wrong = append(wrong, e)
		}
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return pubs, nil
}

// FieldError is a value that a publication cannot have.
type FieldError struct {
	Index   int // of the publication
	Name    string
	Key     string // such as nodes.selector
	Message string // the value and what is allowed
}

// Error names the publication, the key, the value and what is allowed.
func (e *FieldError) Error() string {
	return fmt.Sprintf("publication %q: %s: %s", e.Name, e.Key, e.Message)
}

// check says what is wrong with a completed publication, and what is allowed.
func (p *Publication) check() []*FieldError {
	var wrong []*FieldError
	fail := func(key, message string) {
		wrong = append(wrong, &FieldError{Name: p.Name, Key: key, Message: message})
	}
	bad := func(key string, value any, want string) {
		fail(key, fmt.Sprintf("%q: want %s", fmt.Sprint(value), want))
	}
	var err error
	if p.release, err = slurmconf.ParseRelease(p.SlurmVersion); err != nil {
		fail("slurmVersion", err.Error())
	} else if p.Format == "yaml" && !p.release.YAML() {
		bad("format", p.Format, "conf with Slurm "+p.SlurmVersion+": topology.yaml needs 25.05 or newer")
	}
	if p.Format != "conf" && p.Format != "yaml" {
		bad("format", p.Format, "conf or yaml")
	}
	if len(validation.IsDNS1123Label(p.Namespace)) > 0 {
		bad("namespace", p.Namespace, "up to 63 lower-case letters, digits and dashes, no dash at an end")
	}
	if len(validation.IsDNS1123Subdomain(p.ConfigMap)) > 0 {
		bad("configMap", p.ConfigMap, "lower-case letters, digits, dashes and dots, a letter or digit at the ends and beside dots")
	}
	if p.Topology != "auto" && p.Topology != "block" && p.Topology != "tree" {
		bad("topology", p.Topology, "auto, block or tree")
	}
	p.checkPlaces(fail, bad)
	p.rules = inputs.NewRules(inputs.Config{Selector: p.Nodes.Selector, Slinky: p.Nodes.Slinky, SlurmNames: p.SlurmNames, Namespace: p.Namespace,
		Labels: p.labelKeys(), ResourceSlices: p.ResourceSlices}, fail)
	p.checkGres(fail, bad)
	p.checkNumbers(fail, bad)
	return wrong
}

// checkNumbers checks times, shares and sizes.
func (p *Publication) checkNumbers(fail func(key, message string), bad func(key string, value any, want string)) {
	if p.SettleMax.Duration < p.Settle.Duration {
		bad("settleMax", p.SettleMax, "settle, which is "+p.Settle.String()+", or more")
	}
	if *p.MaxChange < 0 || *p.MaxChange > 1 || math.IsNaN(*p.MaxChange) {
		bad("maxChange", *p.MaxChange, "a share of 0 to 1")
	}
	if p.MinBlockNodes < 1 {
		bad("minBlockNodes", p.MinBlockNodes, "1 or more")
	}
	if p.BaseBlockSize < 0 || p.BaseBlockSize > placement.MaxBlockSize {
		bad("baseBlockSize", p.BaseBlockSize, fmt.Sprintf("1 to %d, or 0 to choose it from the domains", placement.MaxBlockSize))
	} else if err := placement.CheckBlockSizes(p.BaseBlockSize, p.BlockSizes); err != nil {
		fail("blockSizes", err.Error())
	}
}

// checkPlaces checks what says where nodes are put.
func (p *Publication) checkPlaces(fail func(key, message string), bad func(key string, value any, want string)) {
	if p.BlocksBy != "nvlink" && p.BlocksBy != "leaf" {
		bad("blocksBy", p.BlocksBy, "nvlink or leaf")
	}
	if err := placement.CheckParentBlocks(p.ParentBlocks); err != nil {
		fail("parentBlocks", err.Error())
	} else if p.ParentBlocks > 0 && p.release != 0 && !p.release.Placeholders() {
		bad("parentBlocks", p.ParentBlocks, "0 with Slurm "+p.SlurmVersion+": places that are kept free need 25.05 or newer")
	}
	p.checkDefaultTopology(bad)
}

func (p *Publication) checkDefaultTopology(bad func(key string, value any, want string)) {
	blocks := slurmconf.NamesOf(p.BlocksBy == "leaf", true).Blocks
	may := []string{"", blocks, slurmconf.FabricTopology, slurmconf.FlatTopology}
	switch slurmconf.Kind(p.Topology) {
	case slurmconf.KindBlock:
		may = slices.Delete(may, 2, 3)
	case slurmconf.KindTree:
		may = slices.Delete(may, 1, 2)
	}
	switch {
	case p.DefaultTopology != "" && p.Format != "yaml":
		bad("defaultTopology", p.DefaultTopology, "none with format conf: topology.conf has one topology")
	case !slices.Contains(may, p.DefaultTopology):
		bad("defaultTopology", p.DefaultTopology, strings.Join(may[1:], ", ")+", or none for the first there is")
	case p.FlatTopology && p.Format != "yaml":
		bad("flatTopology", p.FlatTopology, "false with format conf: topology.conf has one topology")
	}
}

func (p *Publication) checkGres(fail func(key, message string), bad func(key string, value any, want string)) {
	switch slurmconf.GresNaming(p.Gres.Naming) {
	case slurmconf.NamingModel, slurmconf.NamingFull, slurmconf.NamingShort:
	default:
		bad("gres.naming", p.Gres.Naming, "model, full or short")
	}
	for _, product := range slices.Sorted(maps.Keys(p.Gres.Types)) {
		if err := slurmconf.CheckGresType(p.Gres.Types[product]); err != nil {
			fail("gres.types", fmt.Sprintf("%q: %v", product, err))
		}
	}
	switch p.Gres.AutoDetect {
	case "", slurmconf.AutoDetectOff, slurmconf.AutoDetectNvidia, slurmconf.AutoDetectNVML:
	case slurmconf.AutoDetectFull:
		if p.release != 0 && !p.release.AutoDetectFull() {
			bad("gres.autoDetect", p.Gres.AutoDetect, "off, nvidia or nvml with Slurm "+p.SlurmVersion+": full needs 26.05 or newer")
		}
	default:
		bad("gres.autoDetect", p.Gres.AutoDetect, "off, nvidia, nvml, full, or nothing to list the GPUs of nodes with a report")
	}
}
