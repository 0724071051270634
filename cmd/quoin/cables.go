package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/session"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/switches"
)

// addCables adds the flag --ibnetdiscover.
func (o *freshOptions) addCables(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&o.ibnetdiscover, "ibnetdiscover", nil, "`file` with the output of ibnetdiscover, - for standard input; repeatable, one for each fabric")
	exclude(cmd, "ibnetdiscover", sourceFlags...)
}

// cableTexts are the texts of --ibnetdiscover, and what descriptions of adapters say.
type cableTexts struct {
	texts    []inputs.FabricText
	hosts    []switches.Node
	problems []topology.Finding
	// alone: neither nodes nor reports are given, so the hosts are the nodes.
	alone bool
}

// readCables reads the files of --ibnetdiscover. A text that cannot be read is an error, because somebody has
// just given it.
func (o *freshOptions) readCables(stdin io.Reader) (texts []inputs.FabricText, err error) {
	for i, name := range o.ibnetdiscover {
		if err := o.checkInput("ibnetdiscover", name); err != nil {
			return nil, err
		}
		if slices.Contains(o.ibnetdiscover[:i], name) {
			return nil, fmt.Errorf("--ibnetdiscover %s: want each file once", name)
		}
		text, err := readCableText(stdin, name)
		if err != nil {
			return nil, fmt.Errorf("read cables: %w", err)
		}
		texts = append(texts, text)
	}
	return texts, nil
}

func readCableText(stdin io.Reader, name string) (inputs.FabricText, error) {
	in, shown, err := session.OpenInput(stdin, name, "ibnetdiscover")
	if err != nil {
		return inputs.FabricText{}, err
	}
	defer func() { _ = in.Close() }()
	fabric, err := switches.Read(in)
	if err != nil {
		return inputs.FabricText{}, fmt.Errorf("%s: %w", shown, err)
	}
	return inputs.FabricText{Name: shown, Fabric: fabric}, nil
}

// describe finds the hosts that descriptions name. If the texts stand alone, it adds the hosts to the snapshot.
func describe(texts []inputs.FabricText, snap *inputs.Snapshot, alone bool) (*cableTexts, error) {
	c := &cableTexts{texts: texts, alone: alone}
	var fabrics []*switches.Fabric
	for _, t := range texts {
		fabrics = append(fabrics, t.Fabric)
	}
	c.hosts, c.problems = switches.Hosts(fabrics, adapterNames(snap.Reports))
	if !c.alone {
		return c, nil
	}
	if len(c.hosts) == 0 {
		return nil, fmt.Errorf("no adapter's description names a host, such as %q: give reports, which have the adapters' GUIDs", "n07 mlx5_0")
	}
	for _, h := range c.hosts {
		snap.Nodes = append(snap.Nodes, inputs.Node{Name: h.Name})
	}
	return c, nil
}

// adapterNames returns "NODE ADAPTER" by GUID, as reports say.
func adapterNames(reports map[string]*topology.Node) map[string]string {
	names := map[string]string{}
	for node, report := range reports {
		for _, a := range report.Adapters {
			names[a.NodeGUID] = node + " " + a.Name
			for _, p := range a.Ports {
				names[p.GUID] = names[a.NodeGUID]
			}
		}
	}
	return names
}

// addTo adds the texts to the inputs. A node whose report has no adapters gets the adapters that have its
// name in their description. It returns the hosts that are no nodes.
func (c *cableTexts) addTo(in *inputs.Inputs) (others []string) {
	in.TakeFabrics(c.texts)
	in.Problems = append(in.Problems, c.problems...)
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
	taken := map[string]bool{}
	in.Described = map[string][]switches.Adapter{}
	for i := range in.Facts {
		f := &in.Facts[i]
		f.CablesOnly = c.alone
		for _, name := range slices.Concat(hostNames(f.Name), hostNames(f.SlurmName)) {
			h := byName[name]
			if h == nil {
				continue
			}
			taken[h.Name] = true
			if in.Described[f.Name] == nil {
				in.Described[f.Name] = h.Adapters
			}
		}
	}
	for i := range c.hosts {
		if name := c.hosts[i].Name; !taken[name] {
			others = append(others, name)
		}
	}
	return others
}

// hostNames are the forms of a host's name, the whole first.
func hostNames(name string) []string {
	name = strings.ToLower(name)
	short, _, _ := strings.Cut(name, ".")
	return []string{name, short}
}
