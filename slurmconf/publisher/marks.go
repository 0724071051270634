package publisher

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
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
	markSpec     markKind = iota // the Topology= string
	markFeatures                 // tokens for Slurm's features
	markLabels                   // the place, as labels
)

var markKinds = []markKind{markSpec, markFeatures, markLabels}

// reason is what drift of the kind is called.
func (k markKind) reason() string {
	return [...]string{nodestatus.ReasonAnnotationDiffers, nodestatus.ReasonFeaturesDiffer, nodestatus.ReasonLabelsDiffer}[k]
}

// on reports whether the publication writes marks of the kind.
func (k markKind) on(c *publication.Cluster) bool {
	return [...]bool{c.Annotates, c.Features, c.Labels}[k]
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
		if m.key == plandoc.FeaturesAnnotation { // with the tokens of others in it
			continue
		}
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

// owner returns another writer that owns the mark, or "". The list of features belongs to all; who owns
// what the publisher notes of it decides.
func (m *mark) owner(n *inputs.Node) string {
	if m.kind == markFeatures {
		return n.Foreign[plandoc.FeaturesWritten]
	}
	return n.Foreign[m.key]
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
	// facts are what the tokens come from beside the leaf switch. Without any there are no tokens.
	facts *topology.Facts
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
	old, tokens := n.Annotations[plandoc.FeaturesWritten], ""
	if markFeatures.on(p) {
		tokens = w.tokens(old)
	}
	if old != tokens { // else what others have made of the list stays
		list := n.Annotations[plandoc.FeaturesAnnotation]
		add(markFeatures, plandoc.FeaturesWritten, old, tokens)
		add(markFeatures, plandoc.FeaturesAnnotation, list, withTokens(list, tokens))
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

// The tokens of Slurm's features begin with these. Whatever begins so in the list is Quoin's.
const (
	prefixProduct = "quoin-product-"
	prefixLeaf    = "quoin-leaf-"
	prefixMIG     = "quoin-mig-"
)

// maxTokens is how many products and how many MIG profiles of a node become tokens. No machine has as
// many.
const maxTokens = 16

// ownToken reports whether a token of the list is Quoin's.
func ownToken(token string) bool {
	token = strings.TrimSpace(token)
	return strings.HasPrefix(token, prefixProduct) || strings.HasPrefix(token, prefixLeaf) || strings.HasPrefix(token, prefixMIG)
}

// withTokens returns the list with these tokens of Quoin. What others wrote stays as it is.
func withTokens(list, tokens string) string {
	parts := slices.DeleteFunc(strings.Split(list, ","), func(t string) bool { return strings.TrimSpace(t) == "" || ownToken(t) })
	if tokens != "" {
		parts = append(parts, tokens)
	}
	return strings.Join(parts, ",")
}

// tokens returns the node's tokens as a list. old are those that were written last: what is not known
// of the node now stays as it was.
func (w *wanted) tokens(old string) string {
	if w.facts == nil {
		return ""
	}
	var tokens []string
	add := func(prefix string, names []string, known bool) {
		if !known {
			for token := range strings.SplitSeq(old, ",") {
				if strings.HasPrefix(token, prefix) {
					tokens = append(tokens, token)
				}
			}
			return
		}
		slices.Sort(names)
		names = slices.Compact(names)
		for _, name := range names[:min(len(names), maxTokens)] {
			tokens = append(tokens, prefix+markValue(name))
		}
	}
	products, profiles, known := gpuNames(w.facts)
	add(prefixProduct, products, len(products) > 0)
	if leaf := w.labels[1]; leaf != "" {
		tokens = append(tokens, prefixLeaf+leaf)
	}
	add(prefixMIG, profiles, known)
	return strings.Join(tokens, ",")
}

// asLabels spells names as GPU Feature Discovery spells them in labels.
var asLabels = strings.NewReplacer(" ", "-", "+", ".")

// gpuNames returns the products of a node's GPUs, and the profiles of its MIG instances.
// migKnown says that all of the profiles are known.
func gpuNames(f *topology.Facts) (products, profiles []string, migKnown bool) {
	r := f.Listed().Report
	if r == nil {
		if name := f.Product(); name != "" {
			products = []string{asLabels.Replace(name)}
		}
		return products, nil, false
	}
	migKnown = len(r.GPUs) > 0
	for i := range r.GPUs {
		if g := &r.GPUs[i]; g.Product != "" {
			products = append(products, asLabels.Replace(g.Product))
		}
		for k := range r.GPUs[i].MIG {
			name := r.GPUs[i].MIG[k].Profile
			if name == "" {
				migKnown = false
				continue
			}
			profiles = append(profiles, asLabels.Replace(name))
		}
	}
	return products, profiles, migKnown
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
	for unit := range strings.SplitSeq(spec, ",") {
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

// markValue returns the name as a label's value, which is good for a token too: letters, digits, dashes,
// dots and underscores. A name that can't be one gets a hash at its end, so that two names never become
// the same value.
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
