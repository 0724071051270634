package imex

import "github.com/quoin-hpc/quoin/topology"

// MaxCliqueNodes is the most nodes of one clique that an IMEX domain takes.
const MaxCliqueNodes = 18

// Seen is all that is seen of the membership of a cluster's nodes, or of one of
// them. What an observer may not see is left empty, and nothing follows from that
// but where a field says so.
type Seen struct {
	// Join is that of the completed Config.
	Join string
	// HostChannels is that of the Config.
	HostChannels bool
	// Domain is the domain that nodes are to join.
	Domain Domain
	// Nodes are by the names of the Kubernetes nodes.
	Nodes map[string]Node
	// Cliques are of all domains. Drivers without such objects have none: then
	// Members are judged in their place.
	Cliques []Clique
	// Members are the wanted domain's status.nodes by node, nil where nobody looked.
	Members map[string]Member
	// Claims are the channel claims of all domains.
	Claims []Claim
	// ClaimsUnread says that claims are not this observer's to read: nothing follows
	// from their absence.
	ClaimsUnread bool
	// Workers are the nodes on which worker pods of Slurm are, or are to be, with
	// claims or without; nil where nobody looked. Judge goes by the Nodes, which are
	// told of it.
	Workers map[string]bool
}

// Domain is the ComputeDomain that nodes are to join. Without UID and Problem it is
// not this observer's to read: for each node the domain that its label names counts.
type Domain struct {
	Namespace, Name string
	// UID is empty while there is none.
	UID string
	// Problem says why there is none, or why it cannot be used: a reason of a domain
	// and words for people.
	Problem topology.Problem
	// Deleting says that somebody has deleted it, which ends the daemons everywhere.
	Deleting bool
}

// FabricState is what is known of a node's multi-node NVLink.
type FabricState int

// The states of a node's fabric.
const (
	FabricUnknown FabricState = iota
	FabricNone                // no multi-node NVLink: nothing to join
	FabricClique
)

// Node is what is seen of one node.
type Node struct {
	Name string
	// GPUs says that it has some, by its report, a label or its capacity.
	GPUs   bool
	Fabric FabricState
	// Clique is NVML's, "<cluster UUID>.<clique id>".
	Clique string
	// CliqueLabel is the label nvidia.com/gpu.clique, and DomainLabel
	// resource.nvidia.com/computeDomain: the UID of a domain.
	CliqueLabel string
	DomainLabel string
	// Lost says that Kubernetes hears nothing from the node: its Ready is Unknown.
	Lost bool
	// Local is by the node's report, nil where nobody has said.
	Local *topology.IMEX
	// Worker says that a worker pod of Slurm is on the node, NoWorker that none is.
	// Both are false where that is not known.
	Worker, NoWorker bool
}

// NodeOf is what a node's report says of it: nothing where there is none.
func NodeOf(name string, r *topology.Node) Node {
	n := Node{Name: name}
	if r == nil {
		return n
	}
	n.GPUs, n.Local = len(r.GPUs) > 0, r.IMEX
	switch {
	case r.Domain.None:
		n.Fabric = FabricNone
	case r.Domain != topology.NVLinkDomain{}:
		n.Fabric, n.Clique = FabricClique, r.Domain.Clique.String()
	}
	return n
}

// Clique is a ComputeDomainClique: the daemons of one domain in one clique.
type Clique struct {
	// Domain is the domain's UID, ID the clique's.
	Domain, ID string
	Daemons    []Member
}

// Member is one node's entry in a clique or in a domain's status.
type Member struct {
	Node, Address, Clique string
	Index                 int
	Ready                 bool
}

// Claim is a ResourceClaim for a channel of a domain.
type Claim struct {
	Namespace, Name string
	// Domain is a UID, empty where the claim does not say.
	Domain string
	// Node is where it is allocated, or where its pod is bound to or wants to be;
	// empty where that is not known.
	Node string
	// Owner says whose pod it is for: OwnerHolder, OwnerSlurmd or OwnerOther; empty
	// where that is not known.
	Owner string
	// Pods are those it is reserved for, as namespace/name.
	Pods []string
	// Waiting is the pod that waits for it, while it is not allocated.
	Waiting string
}

// Whose pod a claim is for. The first two are JoinHolder and JoinSlurmd too.
const (
	OwnerHolder = "holder"
	OwnerSlurmd = "slurmd"
	OwnerOther  = "other"
)
