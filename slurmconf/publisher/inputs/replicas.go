package inputs

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// NodeSet is what is read of one of Slinky's NodeSets.
type NodeSet struct {
	Namespace, Name string
	// Cluster is the name of Slinky's Controller.
	Cluster string
	// Replicas is how many worker pods it wants, if PerNode is false.
	Replicas int
	// PerNode says that the NodeSet wants one pod on each Node that it selects. Then Replicas
	// means nothing.
	PerNode bool
}

// Owner names the NodeSet that controls a worker pod.
type Owner struct{ Namespace, NodeSet string }

func (w *Worker) owner() Owner { return Owner{w.Namespace, w.NodeSet} }

// OwnerOf returns the NodeSet of the worker pod that gives the Slurm name to the node. It is
// zero if no pod gives the name, but slurm-bridge's labels.
func (r *Rules) OwnerOf(n *Node, name string) Owner {
	for i := range n.Workers {
		if w := &n.Workers[i]; r.names.has(w) && w.nameOn(n) == name {
			return w.owner()
		}
	}
	return Owner{}
}

// PodFate is what became of the worker pod of a Slurm name.
type PodFate int

const (
	// PodUnknown: nobody can tell, or no pod gave the name.
	PodUnknown PodFate = iota
	// PodThere: the pod exists. It may run, end or wait to be scheduled.
	PodThere
	// PodWanted: the pod is gone, and its NodeSet has fewer pods than it wants.
	PodWanted
	// PodGivenUp: the pod is gone, and no NodeSet is known to make it again.
	PodGivenUp
)

// PodFates returns a function that says what became of the worker pod of a Slurm name. owner is the NodeSet of the name's
// last pod, if it is known. Ask for each name once.
//
// A NodeSet says how many pods it makes, and not which. As many of its names as it has still
// to make count as PodWanted, from the first name on. If no NodeSet says how many it
// makes and no worker pod is known at all, nobody can tell.
func (r *Rules) PodFates(snap *Snapshot) func(name string, owner Owner, known bool) PodFate {
	if !snap.Whole || !r.ByPods() {
		return func(string, Owner, bool) PodFate { return PodUnknown }
	}
	pods, short := r.podNames(snap), snap.short()
	return func(name string, owner Owner, known bool) PodFate {
		more, counted := short[owner]
		switch {
		case pods[name]:
			return PodThere
		case !r.BySlinky(): // nobody says whether a pod is made again
		case known && owner == Owner{}: // slurm-bridge's labels gave the name
		case known && counted && more > 0:
			short[owner]--
			return PodWanted
		case known && counted || len(pods) > 0:
			return PodGivenUp
		}
		return PodUnknown
	}
}

// Pool is the worker pods of one NodeSet, whose machines should be alike.
type Pool struct {
	Owner
	// Names are the Slurm names of its pods that run on a Node. Coming are those of all its pods, and the
	// names that it gives to further ones.
	Names, Coming []string
}

// Numbers reports whether the NodeSet gives such a name: those of its pods differ from it in the number alone.
func (p *Pool) Numbers(name string) bool {
	return len(p.Coming) > 0 && withoutNumber(name) == withoutNumber(p.Coming[0])
}

// IsCounted reports whether a name is among others with the number 0 in place of its own, as where a NodeSet numbers its
// pods. Names of Nodes seldom are so.
func IsCounted(name string, among func(string) bool) bool {
	head := withoutNumber(name)
	digits := len(name) - len(head)
	return digits > 0 && (among(head+"0") || among(head+strings.Repeat("0", digits)))
}

func withoutNumber(name string) string { return strings.TrimRight(name, "0123456789") }

// pools returns the NodeSets that have worker pods of the cluster, with their names in order. all says that
// each NodeSet of the cluster has a pod on a Node. Pods of a DaemonSet are called as their Nodes, which no number counts.
func (r *Rules) pools(snap *Snapshot) (pools []Pool, all bool) {
	byOwner := map[Owner]*Pool{}
	for w, n := range snap.allWorkers() {
		if !r.names.has(w) || n == nil && w.Hostname == "" {
			continue
		}
		p := byOwner[w.owner()]
		if p == nil {
			p = &Pool{Owner: w.owner()}
			byOwner[p.Owner] = p
		}
		if n != nil {
			p.Names = append(p.Names, w.nameOn(n))
		}
		if w.Hostname != "" {
			p.Coming = append(p.Coming, w.Hostname)
		}
	}
	known := map[Owner]bool{}
	all = snap.Whole && len(byOwner) > 0
	for _, set := range snap.NodeSets {
		if r.names.hasSet(&set) {
			owner := Owner{set.Namespace, set.Name}
			p := byOwner[owner]
			known[owner], all = true, all && p != nil && len(p.Names) > 0
		}
	}
	for owner, p := range byOwner {
		all = all && known[owner]
		slices.Sort(p.Names)
		slices.Sort(p.Coming)
		if next := nextNames(p.Coming); next != nil {
			p.Coming = next
		}
		pools = append(pools, *p)
	}
	slices.SortFunc(pools, func(a, b Pool) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.NodeSet, b.NodeSet))
	})
	return pools, all
}

// maxComing bounds the numbers of names. minComing is how many names there are at least: a small NodeSet
// often grows by many pods at once, and their nodes register before a new file is published.
const maxComing, minComing = 1 << 14, 1 << 6

// nextNames returns the names of a NodeSet that numbers its pods: from 0 up to the next power of two above
// all numbers in use. So there are always further names, and the list seldom changes. It returns none if
// the names differ in more than their numbers.
func nextNames(used []string) []string {
	prefix, width, next := "", 1, 0
	for i, name := range used {
		head := withoutNumber(name)
		number := name[len(head):]
		n, err := strconv.Atoi(number)
		if err != nil || n >= maxComing || i > 0 && head != prefix {
			return nil
		}
		if number[0] == '0' {
			width = max(width, len(number)) // padded with zeros
		}
		prefix, next = head, max(next, n+1)
	}
	if next == 0 {
		return nil
	}
	names := make([]string, max(minComing, 1<<bits.Len(uint(next))))
	for n := range names {
		names[n] = fmt.Sprintf("%s%0*d", prefix, width, n)
	}
	return names
}

// short is how many pods each NodeSet has still to make, if it wants a number of them. It is
// negative if there are more pods than are wanted. A pod that ends counts, as Slinky counts.
func (s *Snapshot) short() map[Owner]int {
	short := make(map[Owner]int, len(s.NodeSets))
	for _, set := range s.NodeSets {
		if !set.PerNode {
			short[Owner{set.Namespace, set.Name}] = set.Replicas
		}
	}
	if len(short) == 0 {
		return short
	}
	for w := range s.allWorkers() {
		if n, counted := short[w.owner()]; counted {
			short[w.owner()] = n - 1
		}
	}
	return short
}

// podNames are the Slurm names of all worker pods that the rules look at for names, also of
// pods that end or are not scheduled.
func (r *Rules) podNames(snap *Snapshot) map[string]bool {
	names := map[string]bool{}
	for w, n := range snap.allWorkers() {
		if r.names.has(w) && (n != nil || w.Hostname != "") {
			names[w.nameOn(n)] = true
		}
	}
	return names
}
