package inputs

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

// ReasonNoSlurmName is why a node that a publication takes has no Slurm name.
const ReasonNoSlurmName = "NoSlurmName"

// Selector chooses Nodes by their labels.
type Selector interface {
	// Matches reports whether a Node with these labels is chosen.
	Matches(labels map[string]string) bool
	// Keys are the keys of the labels that it looks at.
	Keys() []string
}

// Config is what a site says of the nodes of one publication.
type Config struct {
	// Selector is nil for all nodes.
	Selector Selector
	// Slinky is CONTROLLER or NAMESPACE/CONTROLLER: nodes on which a worker pod of this
	// Slinky Controller runs. Empty: all nodes.
	Slinky string
	// SlurmNames says how Slurm calls a node: short, full, label:KEY, annotation:KEY,
	// s/REGEXP/REPLACEMENT/, pod:SELECTOR, slinky, slinky:CONTROLLER or
	// slinky:NAMESPACE/CONTROLLER.
	SlurmNames string
	// ParseSelector reads the label selector of pod:SELECTOR.
	ParseSelector func(text string) (Selector, error)
	// Namespace is that of Controllers that are given without one, and of the pods that
	// pod:SELECTOR selects.
	Namespace string
	// Labels are the node labels that say where a node is.
	Labels nodelabels.Keys
	// FabricFiles are the texts by which cables are known: paths, and FabricMaps with a label selector.
	FabricFiles []string
}

// Rules are a Config that was checked. They say which nodes a publication takes and how
// Slurm calls them.
type Rules struct {
	config  Config
	namer   namer      // says the Slurm names if no pods do
	names   *podSource // whose pods say the Slurm names; nil if none do
	workers *podSource // whose pods choose the nodes; nil if none do
}

// NewRules compiles a configuration. It calls wrong with the key and the message of each
// value that is not allowed.
func NewRules(c Config, wrong func(key, message string)) Rules {
	r := Rules{config: c}
	bad := func(key, value, want string) { wrong(key, fmt.Sprintf("%q: want %s", value, want)) }
	r.setSlinky(bad)
	if text, ok := strings.CutPrefix(c.SlurmNames, podNames); ok {
		r.setPods(text, bad)
	}
	if !r.ByPods() {
		var err error
		if r.namer, err = newNamer(c.SlurmNames); err != nil {
			wrong("slurmNames", err.Error())
		}
	}
	for _, keys := range []struct {
		key    string
		labels []string
	}{{"domainLabels", c.Labels.Domains}, {"tierLabels", c.Labels.Tiers}} {
		for _, label := range keys.labels {
			if !isLabelKey(label) {
				bad(keys.key, label, wantedKey)
			}
		}
		checkOwn(keys.key, keys.labels, wrong)
	}
	if c.Selector != nil {
		checkOwn("nodes.selector", c.Selector.Keys(), wrong)
	}
	checkOwn("slurmNames", r.namer.labels, wrong)
	if len(c.Labels.Tiers) > 1 && slices.Contains(c.Labels.Tiers, nodelabels.Auto) {
		bad("tierLabels", nodelabels.Auto, "it alone, or the keys of one source, nearest first")
	}
	return r
}

// checkOwn refuses the labels that the publisher itself writes: what it has decided is no fact to decide
// by.
func checkOwn(key string, labels []string, wrong func(key, message string)) {
	for _, label := range labels {
		if slices.Contains(plandoc.NodeLabels, label) {
			wrong(key, fmt.Sprintf("%q: Quoin itself writes this label from the plan (labels: true): want another label", label))
		}
	}
}

// setSlinky reads whose pods choose and name the nodes.
func (r *Rules) setSlinky(bad func(key, value, want string)) {
	read := func(key, text string, empty bool) *podSource {
		c := parseSlinkyCluster(text, r.config.Namespace)
		if empty && text == "" || IsDNSLabel(c.namespace) && IsLabelValue(c.controller) {
			return &c
		}
		bad(key, text, "the name of a Slinky Controller, or NAMESPACE/CONTROLLER")
		return &c
	}
	if kind, of, colon := strings.Cut(r.config.SlurmNames, ":"); kind == "slinky" {
		r.names = read("slurmNames", of, !colon)
	}
	if r.config.Slinky != "" {
		r.workers = read("nodes.slinky", r.config.Slinky, false)
	}
}

// setPods reads which pods say the Slurm names.
func (r *Rules) setPods(text string, bad func(key, value, want string)) {
	r.names = &podSource{namespace: r.config.Namespace, text: text}
	var err error
	if strings.TrimSpace(text) == "" {
		err = errors.New("it would select every pod")
	} else {
		r.names.selector, err = r.config.ParseSelector(text)
	}
	if err != nil {
		bad("slurmNames", r.config.SlurmNames, "a label selector after pod:, such as pod:app=slurmd,pool=gpu: "+err.Error())
	}
}

// FromLists adapts the rules to objects that come from a list and are not watched. Pods then
// count in any namespace, unless slurmNames or nodes.slinky names the one of a Controller.
func (r *Rules) FromLists() {
	if r.names != nil && (r.names.selector != nil || !strings.Contains(r.config.SlurmNames, "/")) {
		r.names.namespace = ""
	}
	if r.workers != nil && !strings.Contains(r.config.Slinky, "/") {
		r.workers.namespace = ""
	}
}

// ByOwnNames returns rules that take every node of the selector, with a worker pod or without, and
// call it by its own name.
func (r *Rules) ByOwnNames() Rules {
	c := r.config
	c.Slinky, c.SlurmNames = "", "full"
	return Rules{config: c, namer: fullNamer}
}

// ByPods reports whether pods say the Slurm names: Slinky's, or those of pod:SELECTOR.
func (r *Rules) ByPods() bool { return r.names != nil }

// BySlinky reports whether Slinky's pods say the Slurm names.
func (r *Rules) BySlinky() bool { return r.ByPods() && r.names.text == "" }

// NamingPods are the pods of pod:SELECTOR, which say the Slurm names.
type NamingPods struct {
	// Namespace is the publication's.
	Namespace string
	// Text is the selector as it is configured.
	Text     string
	Selector Selector
}

// PodNamespaces are the namespaces whose worker pods of Slinky the rules look at. "" stands
// for all.
func (r *Rules) PodNamespaces() []string {
	var out []string
	for _, c := range []*podSource{r.names, r.workers} {
		if c != nil && c.text == "" && !slices.Contains(out, c.namespace) {
			out = append(out, c.namespace)
		}
	}
	return out
}

// NodeKeys are the labels and annotations of Nodes that somebody looks at. Nodes have many
// others that change often.
type NodeKeys struct{ Labels, Annotations map[string]bool }

// KeysOf returns what the rules of any publication look at, who judges the membership in the
// IMEX domain, and who writes annotations and labels of Nodes.
func KeysOf(rules ...*Rules) NodeKeys {
	k := NodeKeys{map[string]bool{}, map[string]bool{}}
	add := func(to map[string]bool, keys ...string) {
		for _, key := range keys {
			to[key] = true
		}
	}
	add(k.Annotations, plandoc.SpecAnnotation)
	add(k.Labels, plandoc.NodeLabels...)
	add(k.Labels, topology.CliqueLabel, nodelabels.Count, imex.DomainLabel)
	for _, r := range rules {
		add(k.Labels, r.config.Labels.Labels()...)
		if r.config.Selector != nil {
			add(k.Labels, r.config.Selector.Keys()...)
		}
		add(k.Labels, r.namer.labels...)
		add(k.Annotations, r.namer.annotations...)
		if r.BySlinky() {
			add(k.Labels, labelSlurmNodeName, labelExternalNode)
			add(k.Annotations, annotationHostname)
		}
	}
	return k
}

// NamingPodsOf returns the pods beside Slinky's by which any publication names nodes, each
// selector of a namespace once.
func NamingPodsOf(rules ...*Rules) []NamingPods {
	var out []NamingPods
	for _, r := range rules {
		if !r.ByPods() || r.BySlinky() {
			continue
		}
		pods := NamingPods{r.config.Namespace, r.names.text, r.names.selector}
		if !slices.ContainsFunc(out, func(p NamingPods) bool { return p.Namespace == pods.Namespace && p.Text == pods.Text }) {
			out = append(out, pods)
		}
	}
	return out
}

// Takes reports whether the publication takes the node.
func (r *Rules) Takes(n *Node) bool {
	if r.workers != nil && !slices.ContainsFunc(n.Workers, func(w Worker) bool { return r.workers.has(&w) }) {
		return false
	}
	return r.config.Selector == nil || r.config.Selector.Matches(n.Labels)
}

// Wants reports whether the publication takes the node and, if pods say the names, a pod of the
// publication names it.
func (r *Rules) Wants(n *Node) bool {
	if takes := r.Takes(n); !takes || !r.ByPods() {
		return takes
	}
	_, problem := r.namesByPods(n)
	return problem.Reason != ReasonNoWorkerPod
}

// Read returns the facts of a node without its Slurm name.
func (r *Rules) Read(n *Node, snap *Snapshot, unreadable map[string]bool) topology.Facts {
	f := snap.Facts(n, r.config.Labels)
	f.ReportUnreadable = f.Report == nil && unreadable[n.Name]
	return f
}

// NamesOf returns the node's names in Slurm, mostly one, or the problem why it has none. Annotations of
// a Node hold whatever its kubelet writes, so the names are checked.
func (r *Rules) NamesOf(n *Node) (names []string, problem topology.Finding) {
	var from string
	if r.ByPods() {
		if names, problem = r.namesByPods(n); problem.Reason != "" {
			return nil, problem
		}
		from = "its pod says so"
	} else {
		names, from = []string{r.namer.of(n)}, r.namer.from
		if names[0] == "" && from != "" {
			why := "no " + from + " says its name in Slurm"
			if isPattern(from) {
				why = from + " gives no name: it must match the whole name of the Node"
			}
			return nil, topology.Finding{Subject: topology.Subject{Node: n.Name}, Reason: ReasonNoSlurmName, Message: why}
		}
	}
	for _, name := range names {
		if err := hostlist.CheckName(name); err != nil {
			if from != "" {
				err = fmt.Errorf("%s: %w", from, err)
			}
			return nil, topology.Finding{Subject: topology.Subject{Node: n.Name}, Reason: ReasonNoSlurmName, Message: err.Error() + ": " + r.otherName()}
		}
	}
	return names, problem
}

// namedBy says where Slurm names come from.
func (r *Rules) namedBy() string {
	if r.ByPods() {
		return "their worker pods"
	}
	return cmp.Or(r.namer.from, "slurmNames: "+r.config.SlurmNames)
}

// otherName says how a node gets another Slurm name than the one it has.
func (r *Rules) otherName() string {
	kind, key, _ := strings.Cut(r.config.SlurmNames, ":")
	switch {
	case r.BySlinky():
		return "look at the pods of its NodeSet, or annotate the Node with " + annotationHostname
	case r.ByPods():
		return "look at the pods that slurmNames: " + r.config.SlurmNames + " selects"
	case kind == "label" || kind == "annotation":
		return "correct the " + kind + " " + key
	}
	others := "annotation:KEY, such as annotation:" + annotationHostname + ", or label:KEY"
	if kind == "full" {
		return "set slurmNames: " + others
	}
	return "set slurmNames: full, " + others
}

// OverrideHint says what to set if nodes are called by their own names, and an annotation gives some of them
// other names. It is empty otherwise. The annotation is not simply taken, because Slinky follows it only for
// NodeSets with a pod on each Node.
func (r *Rules) OverrideHint(in *Inputs) string {
	if r.ByPods() || r.namer.from != "" {
		return ""
	}
	n := 0
	for _, node := range in.All {
		if name := node.Annotations[annotationHostname]; name != "" && name != r.namer.of(node) {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d nodes are called by their own names, and their annotation %s has other names: if Slurm has these, give --set publicationDefaults.slurmNames=annotation:%[2]s", n, annotationHostname)
}

// Unselected returns, by Slurm name, the nodes that the publication does not take.
func (r *Rules) Unselected(snap *Snapshot) map[string]*Node {
	out := map[string]*Node{}
	if r.config.Selector == nil && r.workers == nil {
		return out
	}
	for i := range snap.Nodes {
		if n := &snap.Nodes[i]; !r.Takes(n) {
			names, _ := r.NamesOf(n)
			for _, name := range names {
				out[name] = n
			}
		}
	}
	return out
}
