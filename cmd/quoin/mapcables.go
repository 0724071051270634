package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/session"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/page"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/picture"
	"github.com/quoin-hpc/quoin/topology/placement"
	"github.com/quoin-hpc/quoin/topology/switches"
)

// cableTexts are the texts of --ibnetdiscover, and what descriptions of adapters say.
type cableTexts struct {
	texts    []inputs.FabricText
	hosts    []switches.Node
	nameless []switches.Nameless
	// known are the GUIDs that reports have, and taken the hosts that are nodes.
	known, taken map[string]bool
}

// readCables reads the files of --ibnetdiscover.
func (o *mapOptions) readCables(stdin io.Reader) (*cableTexts, error) {
	c := &cableTexts{known: map[string]bool{}, taken: map[string]bool{}}
	var fabrics []*switches.Fabric
	for i, name := range o.ibnetdiscover {
		if err := o.checkInput("ibnetdiscover", name); err != nil {
			return nil, err
		}
		if slices.Contains(o.ibnetdiscover[:i], name) {
			return nil, fmt.Errorf("--ibnetdiscover %s: want each file once", name)
		}
		fabric, shown, err := readCableText(stdin, name)
		if err != nil {
			return nil, err
		}
		fabrics = append(fabrics, fabric)
		c.texts = append(c.texts, inputs.FabricText{Name: shown, Fabric: fabric})
	}
	c.hosts, c.nameless = switches.Hosts(fabrics, nil)
	return c, nil
}

func readCableText(stdin io.Reader, name string) (*switches.Fabric, string, error) {
	in, shown, err := session.OpenInput(stdin, name, "ibnetdiscover")
	if err != nil {
		return nil, "", fmt.Errorf("read cables: %w", err)
	}
	defer func() { _ = in.Close() }()
	fabric, err := switches.Read(in)
	if err != nil {
		return nil, "", fmt.Errorf("read cables: %s: %w", shown, err)
	}
	return fabric, shown, nil
}

// addTo adds the texts to the inputs. A node whose report has no adapters gets the adapters that have
// its name in their description.
func (c *cableTexts) addTo(in *inputs.Inputs) {
	in.Fabrics = c.texts
	byName := map[string]*switches.Node{}
	for i := range c.hosts {
		h := &c.hosts[i]
		for _, name := range hostNames(h.Name) {
			if other, twice := byName[name]; twice && other != nil && other.Name != name {
				byName[name] = nil // two hosts have this short name
			} else if !twice {
				byName[name] = h
			}
		}
		byName[strings.ToLower(h.Name)] = h
	}
	in.Described = map[string][]switches.Adapter{}
	for i := range in.Facts {
		f := &in.Facts[i]
		if f.Report != nil {
			for _, a := range f.Report.Adapters {
				c.known[a.NodeGUID] = true
				for _, p := range a.Ports {
					c.known[p.GUID] = true
				}
			}
		}
		for _, name := range slices.Concat(hostNames(f.Name), hostNames(f.SlurmName)) {
			if h := byName[name]; h != nil {
				in.Described[f.Name] = h.Adapters
				c.taken[h.Name] = true
				break
			}
		}
	}
}

// hostNames are the forms of a host's name, the whole first.
func hostNames(name string) []string {
	name = strings.ToLower(name)
	short, _, _ := strings.Cut(name, ".")
	return []string{name, short}
}

// say says which adapters have no known node, as a problem of the plan, and which hosts of the texts are
// no nodes.
func (c *cableTexts) say(stderr io.Writer, site *picture.Site) {
	var others []string
	for i := range c.hosts {
		h := &c.hosts[i]
		if !c.taken[h.Name] && slices.ContainsFunc(h.Adapters, func(a switches.Adapter) bool { return !c.known[a.GUIDs[0]] }) {
			others = append(others, h.Name)
		}
	}
	if len(others) > 0 {
		fmt.Fprintf(stderr, "quoin: hosts in the fabric that are not among the nodes: %s\n", hostlist.Shorten(hostlist.Compress(others)))
	}
	nameless := slices.DeleteFunc(slices.Clone(c.nameless), func(n switches.Nameless) bool { return c.known[n.GUID] })
	site.Plan.Problems = append(site.Plan.Problems, switches.FindNameless(nameless)...)
}

// ofCables returns the switches above all hosts of the texts. The hosts' health is not known.
func (o *mapOptions) ofCables(cmd *cobra.Command) (*drawing, error) {
	if o.previous != "" {
		return nil, errors.New("--previous beside --ibnetdiscover: want --nodes or reports too, because only nodes of Slurm have been published")
	}
	_, pub, err := o.open(cmd, true, "")
	if err != nil {
		return nil, err
	}
	if len(o.cables.hosts) == 0 {
		return nil, fmt.Errorf("no adapter's description in %s names a host, such as %q: give reports, which have the adapters' GUIDs", strings.Join(o.ibnetdiscover, ", "), "n07 mlx5_0")
	}
	var fabrics []*switches.Fabric
	for _, t := range o.cables.texts {
		fabrics = append(fabrics, t.Fabric)
	}
	placed := switches.Place(fabrics, o.cables.hosts, nil)
	plan := &topology.Plan{Topologies: []topology.Topology{{Name: topology.FabricTopology, Default: true, Kind: topology.KindTree, Source: topology.SourceCables.Name, Switches: placed.Switches()}}}
	why := map[string]string{}
	for _, u := range placed.Unplaced {
		why[u.Node] = u.Reason
	}
	site := &picture.Site{Publication: pub.Name, Plan: plan}
	for _, h := range o.cables.hosts {
		o.cables.taken[h.Name] = true
		p := topology.Placement{Node: h.Name, SlurmName: h.Name, Source: topology.SourceFile, Reason: placement.ReasonPlaced}
		if text := why[h.Name]; text != "" {
			p.Reason, p.Message = placement.ReasonCablesMissing, text
		}
		plan.Nodes = append(plan.Nodes, p)
		site.Facts = append(site.Facts, topology.Facts{Name: h.Name, SlurmName: h.Name})
	}
	o.cables.say(cmd.ErrOrStderr(), site)
	known := page.Known{Snapshot: &inputs.Snapshot{}, Inputs: &inputs.Inputs{}, Slurm: o.asked(pub), Published: plan.Topologies}
	known.AddTo(cmd.Context(), site)
	return &drawing{Site: site}, nil
}
