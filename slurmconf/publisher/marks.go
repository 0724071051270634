package publisher

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
)

// Marks are the annotations and labels that the publisher keeps on a Node. This file says which ones a
// Node is to have, and which differ. It is pure; marker.go writes them.

// markKind is what a publication can turn on and off. All marks of a Node are written together.
type markKind int

const (
	markSpec   markKind = iota // the Topology= string
	markLabels                 // the place, as labels
)

var markKinds = []markKind{markSpec, markLabels}

// reason is what drift of the kind is called.
func (k markKind) reason() string {
	return [...]string{nodestatus.ReasonAnnotationDiffers, nodestatus.ReasonLabelsDiffer}[k]
}

// on reports whether the publication writes marks of the kind.
func (k markKind) on(c *publication.Cluster) bool {
	return [...]bool{c.Annotates, c.Labels}[k]
}

// mark is an annotation or a label that is not as it is to be. Empty: there is none.
type mark struct {
	kind       markKind
	key        string
	have, want string
}

// said returns what the Node has, and what it is to have, in a message.
func said(marks []mark, kind markKind) (is, want string) {
	if kind == markSpec {
		return marks[0].have, marks[0].want
	}
	var have, wanted []string
	for _, m := range marks {
		have, wanted = append(have, m.says(m.have)), append(wanted, m.says(m.want))
	}
	return strings.Join(have, " "), strings.Join(wanted, " ")
}

func (m *mark) says(value string) string {
	if value == "" {
		return "no " + m.key
	}
	return m.key + "=" + value
}

// toWrite returns the marks as the store takes them.
func toWrite(marks []mark) inputs.Marks {
	c := inputs.Marks{Annotations: map[string]string{}, Labels: map[string]string{}}
	for _, m := range marks {
		if m.kind == markLabels {
			c.Labels[m.key] = m.want
		} else {
			c.Annotations[m.key] = m.want
		}
	}
	return c
}

// wanted is what a Node is to have. The zero value is nothing.
type wanted struct {
	spec string
	// labels are the values of plandoc.NodeLabels, in that order.
	labels [4]string
}

// differing returns the marks of the Node that differ. A kind that the publication does not write is
// to be gone, but for the Topology= string: without it Slinky takes the node out of its place.
func (w *wanted) differing(p *publication.Cluster, n *inputs.Node) (marks []mark) {
	add := func(kind markKind, key, have, want string) {
		if have != want {
			marks = append(marks, mark{kind, key, have, want})
		}
	}
	if markSpec.on(p) {
		add(markSpec, plandoc.SpecAnnotation, n.Annotations[plandoc.SpecAnnotation], w.spec)
	}
	for i, key := range plandoc.NodeLabels {
		want := ""
		if markLabels.on(p) {
			want = w.labels[i]
		}
		add(markLabels, key, n.Labels[key], want)
	}
	return marks
}

// planPlaces says what the labels of the nodes of a published plan are.
type planPlaces map[string][4]string // by TOPOLOGY:UNIT

// placesOfPlan reads the units of a published plan. A switch that Quoin put above others because no
// label names one is no spine.
func placesOfPlan(plan *topology.Plan) planPlaces {
	places := planPlaces{}
	for i := range plan.Topologies {
		t := &plan.Topologies[i]
		for k := range t.Blocks {
			b, clique := &t.Blocks[k], ""
			if !b.Clique.IsZero() {
				clique = b.Clique.String()
			}
			places[t.Name+":"+b.Name] = [4]string{markValue(b.Name), "", "", markValue(clique)}
		}
		above := map[string]string{}
		joined := map[string]bool{}
		for k := range t.Switches {
			s := &t.Switches[k]
			joined[s.Name] = s.Joined
			for _, child := range s.Children {
				above[child] = s.Name
			}
		}
		for k := range t.Switches {
			s := &t.Switches[k]
			if len(s.Children) > 0 {
				continue
			}
			spine := above[s.Name]
			if joined[s.Name] {
				spine = ""
			}
			places[t.Name+":"+s.Name] = [4]string{"", markValue(s.Name), markValue(spine), ""}
		}
	}
	return places
}

// of returns the labels of a node with the Topology= string.
func (p planPlaces) of(spec string) (labels [4]string) {
	for unit := range topology.SpecUnits(spec) {
		for i, value := range p[unit] {
			if labels[i] == "" {
				labels[i] = value
			}
		}
	}
	return labels
}

// maxMark is the most characters of a label's value.
const maxMark = 63

// markValue returns the name as a label's value: letters, digits, dashes, dots and underscores. A name
// that can't be one gets a hash at its end, so that two names never become the same value.
func markValue(name string) string {
	if name == "" || inputs.IsLabelValue(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	hash := hex.EncodeToString(sum[:4])
	clean := strings.Map(func(r rune) rune {
		if r < 128 && (r == '.' || r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z') {
			return r
		}
		return '-'
	}, name)
	clean = strings.Trim(clean[:min(len(clean), maxMark-1-len(hash))], "-._")
	return strings.TrimPrefix(clean+"-"+hash, "-")
}
