package imex

import (
	"cmp"
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// defaultMaxNodes is how many nodes of one clique NVIDIA's DRA driver lets join by default.
const defaultMaxNodes = 18

// Observation is all that is seen of the membership of a cluster's nodes, or of one
// node. An observer leaves empty what it may not see. Nothing follows from an empty
// field unless its comment says so.
type Observation struct {
	// Join is how nodes join, never JoinAuto, and Why is what Config.Choose says of it.
	Join, Why string
	// HostChannels is the key of the Config.
	HostChannels bool
	// Domain is the domain that nodes are to join.
	Domain Domain
	// Nodes are by the names of the Kubernetes nodes.
	Nodes map[string]Node
	// Cliques are the cliques of all domains. If there are none, because the driver has
	// no such objects, Members are judged instead.
	Cliques []Clique
	// Members are the wanted domain's status.nodes by node, nil if unknown.
	Members map[string]Member
	// Claims are the channel claims of all domains.
	Claims []Claim
	// ClaimsUnread says that the observer reads no claims, so that their absence means
	// nothing. Only quoin imex check reads them.
	ClaimsUnread bool
	// Workers are the nodes that have worker pods of Slurm or are to get them, with or
	// without claims; nil if unknown.
	Workers map[string]bool
}

// Domain is the ComputeDomain that nodes are to join. It has neither UID nor Problem if
// the observer may not read it: then each node's label names the domain that counts.
type Domain struct {
	Namespace, Name string
	// UID is empty while there is none.
	UID string
	// MaxNodes is how many nodes of one clique the domain takes, 0 if that is not known.
	MaxNodes int
	// Problem says why there is no domain, or why it cannot be used. Its reason is one of
	// a domain that cannot be joined.
	Problem topology.Finding
	// Note says what is to be done about a domain that can be joined. It keeps no node out.
	Note topology.Finding
}

// FabricState says what is known about a node's multi-node NVLink.
type FabricState int

// The states of a node's fabric.
const (
	FabricUnknown FabricState = iota
	FabricNone                // no multi-node NVLink: nothing to join
	FabricClique
	FabricNotReady // the node should be in a clique, and its GPUs are not
)

// Node is what is seen of one node.
type Node struct {
	Name string
	// GPUs says that the node has GPUs, by its report, a label or its capacity.
	GPUs   bool
	Fabric FabricState
	// Why says what the fabric is. It is empty without a report.
	Why topology.Finding
	// Clique is the clique that NVML names, "<cluster UUID>.<clique id>". If the fabric is not ready,
	// it is the one that NVML named last.
	Clique string
	// CliqueLabel is the label nvidia.com/gpu.clique, and DomainLabel
	// resource.nvidia.com/computeDomain: the UID of a domain.
	CliqueLabel string
	DomainLabel string
	// Lost says that Kubernetes hears nothing from the node: its Ready is Unknown.
	Lost bool
	// Local is what the node's report says about IMEX, nil without a report.
	Local *topology.IMEX
	// Listed is how many nodes the node's own nodes_config.cfg has, and MaxNodes how many nodes like this one
	// NVLink joins at most. Each is 0 if that is not known.
	Listed, MaxNodes int
}

// NodeOf returns what a node's report and the verdict on its fabric say about it. r may be nil.
func NodeOf(name string, r *topology.Node, fabric *topology.FabricVerdict) Node {
	n := Node{Name: name}
	if r == nil {
		return n
	}
	n.Why = *fabric.Finding
	n.GPUs, n.Local, n.MaxNodes = len(r.GPUs) > 0, r.IMEX, fabric.MaxNodes
	if r.IMEXNodes != nil {
		n.Listed = *r.IMEXNodes
	}
	if slices.ContainsFunc(r.Problems, func(p topology.Finding) bool { return p.Reason == topology.ReasonFactsStale }) {
		n.Local = nil // nobody knows how the daemon is now
	}
	clique := r.Domain.Clique
	switch fabric.IMEX {
	case topology.IMEXNone:
		n.Fabric = FabricNone
		return n
	case topology.IMEXWanted:
		n.Fabric, clique = FabricClique, cmp.Or(clique, fabric.Clique)
	case topology.IMEXNotReady:
		n.Fabric, clique = FabricNotReady, cmp.Or(clique, r.EarlierClique, fabric.Clique)
	}
	if !clique.IsZero() {
		n.Clique = clique.String()
	}
	return n
}

// Clique is a ComputeDomainClique: the daemons of one domain in one clique.
type Clique struct {
	// Domain is the domain's UID, ID the clique's.
	Domain, ID string
	Daemons    []Member
}

// Member is one node's entry in a clique or in a domain's status. Clique is the clique's ID.
type Member struct {
	Node, Address, Clique string
	Index                 int
	Ready                 bool
}

// Claim is a ResourceClaim for a channel of a domain.
type Claim struct {
	Namespace, Name string
	// Domain is a UID, empty if the claim names none.
	Domain string
	// Node is the node of its allocation, or of its pod, or the one node that its pod
	// can run on; empty if unknown.
	Node string
	// Owner says whose pod it is for: OwnerHolder, OwnerSlurmd or OwnerOther; empty if
	// unknown.
	Owner string
	// Pods are the pods that it is reserved for, as namespace/name.
	Pods []string
	// Waiting is the pod that waits for the claim until it is allocated.
	Waiting string
}

// Whose pod a claim is for. The first two are JoinHolder and JoinSlurmd too.
const (
	OwnerHolder = "holder"
	OwnerSlurmd = "slurmd"
	OwnerOther  = "other"
)
