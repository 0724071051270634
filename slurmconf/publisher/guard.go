package publisher

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

// change is what would be published, beside what is published. It is too big if it would move,
// rename or remove too many nodes. Nodes that are really gone do not count, because nobody can bring
// them back by waiting.
type change struct {
	// old is the published plan, with the names that nodes have now. It is nil if nothing is published.
	old *plandoc.Plan
	// moved and redone are the nodes that would move or leave, and those whose lines in gres.conf would change or be
	// removed. Nodes that are gone are not among them.
	moved, redone []string
	// sameGres says that gres.conf would not change.
	sameGres bool
	// renamed are the Nodes whose name differs from the published files.
	renamed []renamed
	// gone are the nodes that leave because no Node has their name, with the reason of each. lost are
	// those that leave later, because settings were changed.
	gone, lost leavers
	settings   settings
	// follows are nodes that follow their NVLink partitions. Whether they may has been decided.
	follows []string
	// unfiled are nodes that leave the topology file because annotations are to place them.
	unfiled []string
}

// changeOf returns what would be published, beside what is published.
func changeOf(p *publication.Cluster, mem *stored, in *gathered, made *Rendered) *change {
	c := &change{old: in.prev.asNow(), sameGres: mem.set.Own()["gres.conf"] == made.Files["gres.conf"],
		renamed: in.prev.renamed, gone: in.gone, lost: in.lost, settings: in.settings, unfiled: unfiled(p, in, made)}
	for i := range made.found.Follows {
		c.follows = append(c.follows, made.found.Follows[i].Moves()...)
	}
	c.compare(&plandoc.Plan{Plan: *made.Plan, Devices: made.FilePlan.Devices})
	return c
}

// compare notes which nodes the next plan changes.
func (c *change) compare(next *plandoc.Plan) {
	if c.old != nil {
		changes := plandoc.Diff(c.old, next)
		c.moved, c.redone = slices.DeleteFunc(changes.Displaced, c.gone.gone), slices.DeleteFunc(changes.Redone, c.gone.gone)
	}
}

// tooBig says why people should look at the change first. It returns "" if nobody needs to. Nodes
// that doc remembers of the last hour count too.
func (c *change) tooBig(p *publication.Cluster, doc *plandoc.Document, now time.Time) string {
	if c.old == nil {
		return ""
	}
	what, why := c.tooMany(p, doc, now)
	if what == "" {
		return ""
	}
	return fmt.Sprintf("%s, more than %.0f %%%s", what, 100**p.MaxChange, why)
}

// tooMany says that more nodes change than may at once, and why. It returns "" if they are not too
// many.
func (c *change) tooMany(p *publication.Cluster, doc *plandoc.Document, now time.Time) (what, why string) {
	places, devices := doc.Recent(now)
	nodes := slices.DeleteFunc(slices.Clone(c.moved), func(n string) bool { return slices.Contains(c.follows, n) })
	published := c.published()
	if all, rest := c.bySettings(nodes, published); !allowed(p, len(all), len(published)) {
		what = "get another Slurm name, move or leave"
		switch {
		case len(rest) == 0:
			what = "get another Slurm name"
		case len(c.renamed) == 0:
			what = "move or leave"
		}
		gone := leavers{}
		maps.Copy(gone, c.gone)
		maps.Copy(gone, c.lost)
		return fmt.Sprintf("%d of %d nodes would %s", len(all), len(published), what), joinReasons(c.named(), gone.why(rest))
	}
	of := len(c.old.Places())
	if n, and := together(nodes, places); !allowed(p, n, of) {
		return fmt.Sprintf("%d of %d nodes would move or leave%s", n, of, and), joinReasons(c.gone.why(nodes))
	}
	// Pods come and go with their names; a label is somebody's to write, and to mistake.
	if of := len(published); !p.Rules.ByPods() && !allowed(p, len(c.renamed), of) {
		return fmt.Sprintf("%d of %d nodes would get another Slurm name", len(c.renamed), of), joinReasons(c.named())
	}
	if !allowed(p, len(c.unfiled), of) {
		return fmt.Sprintf("%d of %d nodes would leave the topology file", len(c.unfiled), of),
			joinReasons("membership is annotation now, and only nodes that register dynamically (slurmd -Z) take their place from an annotation")
	}
	if c.sameGres {
		return "", ""
	}
	listed := gres.ByNode(c.old.Devices, nil)
	if n, and := together(c.redone, devices); !allowed(p, n, len(listed)) {
		return fmt.Sprintf("the lines of %d of %d nodes in gres.conf would change or be removed%s", n, len(listed), and), joinReasons(c.gone.why(c.redone))
	}
	return "", ""
}

// published are the nodes that have a place. If gres.conf alone is published, they are those that it names.
func (c *change) published() map[string]bool {
	out := make(map[string]bool)
	for name := range c.old.Places() {
		out[name] = true
	}
	if len(out) == 0 {
		listed := gres.ByNode(c.old.Devices, nil)
		for name := range listed {
			out[name] = true
		}
	}
	return out
}

// bySettings returns the nodes that change if changed settings give other names or take nodes away, and
// those of them that keep their name. nodes are those that move or leave now.
func (c *change) bySettings(nodes []string, published map[string]bool) (all, rest []string) {
	if !c.settings.changed() || len(c.renamed)+len(c.lost) == 0 {
		return nil, nil
	}
	named := make(map[string]bool, len(c.renamed))
	for _, r := range c.renamed {
		named[r.new] = true
		all = append(all, r.new)
	}
	for _, name := range slices.AppendSeq(slices.Clone(nodes), maps.Keys(c.lost)) {
		if published[name] && !named[name] {
			rest = append(rest, name)
		}
	}
	return append(all, rest...), rest
}

// named says how the first of the nodes with another name is called now, and by what. It returns ""
// if none has another name.
func (c *change) named() string {
	if len(c.renamed) == 0 {
		return ""
	}
	r := c.renamed[0]
	old, now := c.settings.byNames()
	if old != "" {
		old = " (" + old + ")"
	}
	return fmt.Sprintf("Node %s was named %s until now%s; by %s it is %s", r.node, r.old, old, now, r.new)
}

// joinReasons joins the reasons that there are.
func joinReasons(reasons ...string) string {
	reasons = slices.DeleteFunc(reasons, func(r string) bool { return r == "" })
	if len(reasons) == 0 {
		return ""
	}
	return ": " + strings.Join(reasons, "; ")
}

// remember notes in doc which nodes change. An approval ends what was counted. Nodes that
// are gone are not noted.
func (c *change) remember(doc *plandoc.Document, approved bool, now time.Time) {
	if approved || c.old == nil {
		doc.Moves = nil
		return
	}
	doc.Remember(now.UTC().Truncate(time.Second), c.moved, c.redone)
}

// together counts the nodes that change now or changed before, within the window. If none
// changes now, none counts.
func together(now []string, before map[string]int) (n int, and string) {
	if len(now) == 0 {
		return 0, ""
	}
	n = len(now)
	for _, node := range now {
		if before[node] > 0 {
			n--
		}
	}
	if n += len(before); n > len(now) {
		and = fmt.Sprintf(", with %d that did within the last hour", n-len(now))
	}
	return n, and
}

// allowed reports whether so many nodes may change at once. One node may always change. A share of 1 turns the limit off:
// with the nodes of the last hour, more may have changed than there are now.
func allowed(p *publication.Cluster, changed, of int) bool {
	return changed <= 1 || *p.MaxChange == 1 || float64(changed) <= *p.MaxChange*float64(of)
}
