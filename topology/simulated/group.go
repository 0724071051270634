package simulated

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// addGroup makes the group's machines. racks counts the racks of all groups.
func (c *Cluster) addGroup(g *group, racks *int) error {
	if err := g.complete(); err != nil {
		return err
	}
	if g.Racks*g.Nodes+len(c.machines) > maxMachines {
		return bad("racks", "%d racks of %d nodes: want at most %d machines in all", g.Racks, g.Nodes, maxMachines)
	}
	node := 0
	for r := range g.Racks {
		*racks++
		for tray := range g.Nodes {
			node++
			m := machine{group: g, home: place{cluster: g.Name, rack: *racks, tray: tray + 1}}
			if err := m.setNames(map[string]int{"rack": r + 1, "tray": tray + 1, "node": node}); err != nil {
				return err
			}
			if err := c.add(m); err != nil {
				return err
			}
		}
	}
	return nil
}

// setNames sets the names of the machine and of its switches.
func (m *machine) setNames(numbers map[string]int) error {
	var err error
	if m.name, err = expand(m.group.Node, numbers); err != nil {
		return bad("node", "%s", err)
	}
	for _, t := range m.group.Tiers {
		tier, err := expand(t, numbers)
		if err != nil {
			return bad("tiers", "%s", err)
		}
		m.home.tiers = append(m.home.tiers, tier)
	}
	return nil
}

// hostName matches names that Kubernetes takes for a node. Such a name may also be
// part of a file's name. The length is checked apart, because a regular expression that
// counts to it takes long to compile.
var hostName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)

// add puts a machine into its place in the cluster. Its agent has confirmed its
// domain.
func (c *Cluster) add(m machine) error {
	if len(m.name) > 253 || !hostName.MatchString(m.name) {
		return bad("node", "%q: want lower case letters, digits, dashes and dots, such as gb200-{node:03}", m.name)
	}
	if i, dup := c.index[m.name]; dup {
		if c.machines[i].group != m.group {
			return bad("node", "%q is also a machine of another group: want names of their own", m.name)
		}
		return bad("node", "pattern %q gives the name %q twice: want {node}, or {rack} and {tray}", m.group.Node, m.name)
	}
	m.place = m.home
	if m.group.GPUs.Count > 0 {
		clique, joined := m.clique()
		m.domain = topology.NVLinkDomain{Clique: clique, None: !joined}
	}
	c.index[m.name] = len(c.machines)
	c.machines = append(c.machines, m)
	return nil
}

// complete fills in defaults and checks the group.
func (g *group) complete() error {
	for _, n := range []struct {
		key                  string
		value                *int
		otherwise, min, most int
	}{
		{"racks", &g.Racks, 1, 1, maxMachines},
		{"nodes", &g.Nodes, 1, 1, 4096},
		{"gpus.count", &g.GPUs.Count, 0, 0, 64},
		{"gpus.numaNodes", &g.GPUs.NUMANodes, 1, 1, 16},
		{"gpus.cpus", &g.GPUs.CPUs, 0, 0, 4096},
		{"gpus.nvlinks", &g.GPUs.NVLinks, 0, 0, 18},
		{"rails", &g.Rails, 0, 0, 8},
		{"mig.instances", &g.MIG.Instances, 0, 0, 7},
		{"mig.firstID", &g.MIG.FirstID, 0, 0, 7},
	} {
		if *n.value == 0 {
			*n.value = n.otherwise
		}
		if *n.value < n.min || *n.value > n.most {
			return bad(n.key, "%d: want %d to %d", *n.value, n.min, n.most)
		}
	}
	g.NVLink = cmp.Or(g.NVLink, nvlinkNone)
	g.Driver = cmp.Or(g.Driver, "580.65.06")
	switch {
	case g.Node == "":
		return bad("node", "missing: want a pattern such as gb200-{node:03}")
	case g.NVLink != nvlinkRack && g.NVLink != nvlinkNode && g.NVLink != nvlinkNone:
		return bad("nvlink", "%q: want rack, node or none", g.NVLink)
	case slices.Contains(g.Tiers, ""):
		return bad("tiers", "one is empty: want the names of switches, nearest first, such as leaf-{rack}")
	case len(g.Tiers) > len(tierLabels):
		return bad("tiers", "%d of them: want at most %d", len(g.Tiers), len(tierLabels))
	}
	if err := g.Use.check(); err != nil {
		return err
	}
	if err := g.IMEX.check(); err != nil {
		return err
	}
	return g.checkGPUs()
}

var migProfile = regexp.MustCompile(`^[1-7]g\.[0-9]+gb(\+[a-z.]+)?$`)

func (g *group) checkGPUs() error {
	gpus := &g.GPUs
	switch {
	case gpus.Count > 0 && gpus.Product == "":
		return bad("gpus.product", "missing: want such as NVIDIA GB200")
	case gpus.CPUs%gpus.NUMANodes != 0:
		return bad("gpus.cpus", "%d: want a multiple of the %d NUMA nodes", gpus.CPUs, gpus.NUMANodes)
	case len(gpus.Minors) > 0 && len(gpus.Minors) != gpus.Count:
		return bad("gpus.minors", "%d numbers: want one per GPU, %d", len(gpus.Minors), gpus.Count)
	case g.MIG.Instances > 0 && !migProfile.MatchString(g.MIG.Profile):
		return bad("mig.profile", "%q: want such as 1g.10gb", g.MIG.Profile)
	}
	for i, minor := range gpus.Minors {
		if minor < 0 || minor > 255 {
			return bad("gpus.minors", "%d: want 0 to 255", minor)
		}
		if slices.Contains(gpus.Minors[:i], minor) {
			return bad("gpus.minors", "%d stands twice: want each number once", minor)
		}
	}
	return nil
}

// number matches a number in a pattern, such as {node:03} or {rack/4}.
var number = regexp.MustCompile(`\{(rack|tray|node)(?:/([1-9][0-9]{0,5}))?(?::0?([1-9]))?\}`)

// expand writes numbers into a pattern such as gb200-{node:03}. {rack}, {tray} and
// {node} are numbers from 1, {rack/4} is the same for four racks, {node:03} has at
// least three digits.
func expand(pattern string, numbers map[string]int) (string, error) {
	name := number.ReplaceAllStringFunc(pattern, func(found string) string {
		m := number.FindStringSubmatch(found)
		n := numbers[m[1]]
		if per, err := strconv.Atoi(m[2]); err == nil {
			n = (n-1)/per + 1
		}
		width, _ := strconv.Atoi(m[3]) // 0 without a width
		return fmt.Sprintf("%0*d", width, n)
	})
	if strings.ContainsAny(name, "{}") {
		return "", fmt.Errorf("pattern %q: want {rack}, {tray} or {node}, as {rack/4} or {node:03} too", pattern)
	}
	return name, nil
}
