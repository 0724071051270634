package imex

import (
	"cmp"
	"errors"
	"strconv"

	"github.com/quoin-hpc/quoin/topology"
)

// domainLabel is the Node label that holds the UID of the node's ComputeDomain.
const domainLabel = "resource.nvidia.com/computeDomain"

// channelDir is where a machine has its device files of channels.
const channelDir = "/dev/nvidia-caps-imex-channels"

// outside is of nodes that have nothing to join.
func (j *judge) outside(n *node) finding {
	switch {
	case n.Fabric == FabricNone:
		return finding{reason: ReasonNoMultiNodeNVLink, message: "NVLink joins none of its GPUs with another node's: jobs need no IMEX here"}
	case j.Join == JoinNone:
		return finding{reason: ReasonNotWanted, message: "imex.join is none: nodes join no domain"}
	case n.Clique == "" && saysNone(n.CliqueLabel):
		return finding{reason: ReasonNoMultiNodeNVLink, message: "label " + topology.CliqueLabel + " is " + n.CliqueLabel + ", which is no clique: jobs need no IMEX here"}
	}
	return finding{}
}

// saysNone reports whether a clique's label says that there is none.
func saysNone(label string) bool {
	if label == "" {
		return false
	}
	_, err := topology.ParseClique(label)
	return errors.Is(err, topology.ErrNoDomain)
}

// domain is of a domain that nobody can join.
func (j *judge) domain(*node) finding {
	d := &j.Domain
	reason, message := d.Problem.Reason, d.Problem.Message
	if reason == "" && !d.Deleting {
		return finding{}
	}
	name := "ComputeDomain " + d.Namespace + "/" + d.Name
	switch {
	case d.Deleting:
		reason, message = ReasonDomainDeleting, name+" is being deleted, which ends the IMEX daemons of all its nodes"
	case remedyOf(reason) == "":
		message = d.Problem.String()
		if reason = ReasonDomainDiffers; d.UID == "" {
			reason = ReasonNoDomain
		}
	}
	return finding{reason, cmp.Or(message, name+" cannot be joined"), remedyOf(reason)}
}

// remedyOf returns the remedy of a domain's problem, empty for a word that is none.
func remedyOf(reason string) string {
	switch reason {
	case ReasonNoDomain:
		return "let the publisher create it, and see its log why it could not"
	case ReasonNoCRD:
		return "install NVIDIA's DRA driver with its compute domains, whose Helm chart brings the CRDs, or set imex.join to none"
	case ReasonDomainDiffers:
		return "set the keys below imex to what the domain has, because its spec cannot be changed; or delete the domain as manifests/RUNBOOKS.md says, and the publisher creates it again"
	case ReasonDomainForbidden:
		return "let the publisher get, list, watch and create ComputeDomains"
	case ReasonDomainDeleting:
		return "start no job across nodes; end the pods that claim its channels, so that the deletion ends and the domain is created anew"
	}
	return ""
}

// domainText names the domain that the node is to join.
func (j *judge) domainText(n *node) string {
	if j.Domain.Name == "" {
		return n.wanted
	}
	return n.wanted + " (" + j.Domain.Namespace + "/" + j.Domain.Name + ")"
}

// fabric is of a node of which no clique is known. One without GPUs can only have
// a claim by mistake, which says more.
func (j *judge) fabric(n *node) finding {
	if n.own != nil || !n.GPUs && len(n.holds) > 0 {
		return finding{}
	}
	return unknownFabric()
}

func unknownFabric() finding {
	return finding{ReasonFabricUnknown, "neither the node's report nor the label " + topology.CliqueLabel + " says which NVLink clique it is in",
		"wait while its GPUs register with the NVLink fabric; if that lasts, see quoin discover on the node and the log of the fabric manager"}
}

// host is of a machine on which the driver's daemon cannot work.
func (j *judge) host(n *node) finding {
	switch {
	case n.Local == nil:
	case n.Local.HostService:
		return finding{ReasonHostService, "nvidia-imex.service runs on the host" + daemonText(n) + ": beside it the DRA driver's daemon does not work (NV_ERR_IN_USE), nor the other way round",
			"run systemctl disable --now nvidia-imex.service on the node, then delete the node's pod of the DRA driver's daemon"}
	case n.Local.ChannelMajor == nil:
		return finding{ReasonNoChannelMajor, "/proc/devices has no nvidia-caps-imex-channels: the NVIDIA driver that is loaded offers no channels",
			"load an NVIDIA driver that has IMEX, and not with NVreg_ImexChannelCount=0, then restart the DRA driver's kubelet plugin on the node"}
	case j.HostChannels && n.Local.Channels == 0:
		return finding{ReasonNoChannels, channelDir + " of the node has no channel, though jobs use those of the nodes (imex.hostChannels): CUDA refuses memory of other nodes without one",
			"put options nvidia NVreg_CreateImexChannel0=1 into /etc/modprobe.d, with which the NVIDIA driver makes channel0 when it is loaded; until then, mkdir -p " + channelDir + " and mknod -m 666 " + channelDir + "/channel0 c " + strconv.Itoa(*n.Local.ChannelMajor) + " 0; or set imex.hostChannels to false where switch/nvidia_imex or a claim gives jobs theirs"}
	}
	return finding{}
}

// daemonText says what the local daemon says of itself, if it is known.
func daemonText(n *node) string {
	if n.Local == nil || n.Local.DaemonState == "" {
		return ""
	}
	return " (the local daemon says " + n.Local.DaemonState + ")"
}

// label is of a node whose claim the driver has not prepared.
func (j *judge) label(n *node) finding {
	if n.DomainLabel != "" {
		return finding{}
	}
	message := "the node has no label " + domainLabel + ", by which its daemon is started: the driver has prepared no claim"
	remedy := "wait; if that lasts, see which pod on the node claims a channel, and the log of the DRA driver's kubelet plugin there"
	if len(n.holds) > 0 {
		message += ", though " + n.holds[0].text()
		remedy = "wait; if that lasts, see the log of the DRA driver's kubelet plugin on the node: the end of another claim there takes the label away, then delete pod " + n.holds[0].pods()
	}
	return finding{ReasonNotPrepared, message, remedy}
}
