package topology

// Word is one reason word. Remedy is empty if there is nothing to do. Ends is empty if the finding ends as soon as
// its cause is no longer read.
type Word struct{ Reason, Meaning, Remedy, Ends string }

// Chapter is the words of one part of Quoin.
type Chapter struct {
	Title, Text string
	Words       []Word
}

// Explain returns the row of a reason word. The row is empty if there is none.
func Explain(reason string) Word {
	for _, c := range Reasons {
		for _, w := range c.Words {
			if w.Reason == reason {
				return w
			}
		}
	}
	return Word{}
}

// asPublished ends the hold of one decision.
const asPublished = "by itself if the nodes and the configuration are again as published"

// Reasons is the only table of reason words. REASONS.md, quoin help reasons, what the map shows as remedy, and what
// ends a hold are made from the table. The first chapter bounds what agents may report.
var Reasons = []Chapter{
	{"What agents report", "Problems in a NodeReport: kubectl get nodereports, quoin discover.", []Word{
		{"AdapterSlow", "a port of an adapter is slower than half of the ports of its model", "look at the cable, dmesg and mlxlink -d ADAPTER", ""},
		{"DCGMIDUnknown", "DCGM or its exporter named no id for a GPU: job labels go by NVML's index", "name the node's own host engine or exporter", ""},
		{"DomainChanged", "NVML named a clique in this boot and names none now; the node stays", "look at Fabric Manager", ""},
		{"FactUnreadable", "a fact could not be read, or has no room: the fact is absent, not zero", "update the driver if the message names NVML", ""},
		{"FactsStale", "no probe has confirmed the report for minutes", "read the agent's log: NVML may hang", ""},
		{"FactsUnsettled", "GPUs or MIG instances changed each time that they were read", "read the agent's log if this lasts", ""},
		{"GPULost", "the driver has a GPU on PCI that NVML does not show", "look at dmesg; reset the GPU or restart the machine", ""},
		{"GPUMissing", "an earlier report had the GPU; gres.conf keeps the GPU", "look at dmesg; replace the GPU, or lower Gres= in slurm.conf", "when a GPU is there"},
		{"GPUUnreadable", "NVML counts the GPU and cannot read it", "look at dmesg; replace the GPU", ""},
		{"ImexUnreadable", "nvidia-imex-ctl cannot run or says no state", "run nvidia-imex-ctl -N on the node; look at the IMEX daemon", ""},
		{"MemoryErrors", "uncorrected ECC errors, or memory rows that wait to be remapped", "reset the GPU when no job uses it; replace the GPU if errors come again", "when the GPU was reset"},
		{"MoreProblems", "the machine has more than 64 problems", "read the agent's log", ""},
		{"RecoveryAdvised", "NVML asks for less than a reset of the GPU", "do what the message asks when no job uses the GPU", ""},
		{"RecoveryNeeded", "NVML asks for a reset or a restart", "drain the node, then reset the GPU or restart the machine", ""},
		{"XidCritical", "the driver logged an Xid after which somebody has to act", "drain the node, then do what the message asks", "when the GPU was reset"},
		{"XidLook", "the driver logged an Xid that may be harmless", "look at dmesg and at NVIDIA's Xid catalogue", "when the GPU was reset"},
	}},
	{"IMEX and the ComputeDomain", "Verdicts about a node and the domain: quoin imex check, the Node condition, the gate.", []Word{
		{"Conflict", "two indices, addresses, domains or IMEX daemons where one can be", "end the one named, while no job across nodes runs", ""},
		{"DomainDeleting", "somebody deleted the ComputeDomain", "end the pods that claim its channels", ""},
		{"DomainDiffers", "the spec is not as configured; nodes that have joined stay Ready", "set the keys below imex to the spec, or delete the domain by manifests/RUNBOOKS.md", ""},
		{"DomainOutdated", "the domain's daemons are older than the driver; nodes join all the same", "renew the daemons rack by rack by manifests/RUNBOOKS.md", ""},
		{"DomainProblem", "no node can join the domain: the domain's own reason says why", "run quoin imex check", ""},
		{"NoDomain", "the ComputeDomain is not there", "let a publisher with 13-rbac-imex.yaml create the domain, or create it by hand", ""},
		{"NoDriver", "NVIDIA's DRA driver starts no IMEX daemons; the gate is open", "", ""},
		{"NoMultiNodeNVLink", "NVLink does not leave the node, so jobs need no IMEX", "", ""},
		{"NotClaimed", "no pod has the node's IMEX channel", "run quoin-imex there, or give worker pods a claim; see quoin imex check", ""},
		{"NotReady", "the daemon or its entry is not ready, or is older than the boot", "wait some minutes; then read the daemon's log", ""},
		{"NotRegistered", "the node has no entry in its clique, or the clique is full", "wait; then read the logs of the daemon and the kubelet plugin", ""},
		{"NotWanted", "as configured, the node joins no domain", "", ""},
		{"PeersNotConnected", "no IMEX connection to nodes of the job", "run nvidia-imex-ctl -N here, and look at nvidia-imex on the missing nodes", ""},
		{"PeersUnknown", "connections to the job's nodes are not known; the job started", "copy nodes_names.cfg to the nodes", ""},
		{"Ready", "jobs across nodes may use IMEX here", "", ""},
		{"Unknown", "neither report nor label says what the node needs; the gate is open", "look at the agent, or label the node", ""},
		{"WrongClaim", "the wrong pod has the node's channel, or two pods claim it", "end a waiting pod first, then take the claim from the wrong pods", ""},
	}},
	{"Places in the plan", "Findings of the plan: quoin map, Node conditions, quoin_publisher_problems, quoin_publisher_nodes.", []Word{
		{"AdapterNameless", "nobody knows whose an adapter is; other adapters place the node", "run agents, or name each host in its adapters (rdma-ndd)", ""},
		{"AdaptersUnsure", "it is not certain which adapters jobs use, and cables place the node", "set computeAdapters", ""},
		{"CablesDiffer", "cables and labels name different switches; the cables count", "correct the labels, or the cabling", ""},
		{"CablesMissing", "cables of a node, of the site or above a switch are not known", "see that agents run and links are up; read the fabric again", ""},
		{"CliqueLabelMalformed", "nvidia.com/gpu.clique is no cluster UUID and clique", "look at GPU Feature Discovery on the node", ""},
		{"CountLabelMalformed", "a label that counts GPUs holds no such number", "correct the label", ""},
		{"DecisionHeld", "its new rack would change the published topologies", "approve the change that quoin plan status names", ""},
		{"DomainImplausible", "more GPUs in one NVLink domain than there can be", "look at Fabric Manager and at who writes the label, or set maxDomainGPUs", ""},
		{"DomainUnconfirmed", "GPUs named another domain than published, but once: the node stays", "", "at the agent's second reading"},
		{"FabricInProgress", "fabric registration in progress", "look at Fabric Manager if that lasts", ""},
		{"FabricMissing", "GPUs without the fabric that they should have", "look at Fabric Manager or NMX, at the NVLink switches and at nvidia-smi -q, section Fabric, then restart the machine; " +
			"if the machine is no longer part of an NVLink rack, delete its NodeReport and restart its agent, after the node has left Slurm for removeAfter", ""},
		{"FabricNotReady", "the NVLink fabric or the driver's IMEX channels are not ready", "read the log of Fabric Manager; then reset the GPUs or restart", ""},
		{"ForgottenInUse", "a name in forgetBlocks or forgetSwitches is still in use", "move the nodes, or take the name from the list", ""},
		{"GPUOutsideClique", "some GPUs are in a clique, which counts, and others in none", "look at Fabric Manager, these GPUs and the NVLink partitions", ""},
		{"JobSizesImpossible", "jobs of some sizes need more blocks than Slurm gives a job", "use sbatch --segment, or set the key in the message", ""},
		{"LabelConflict", "labels contradict each other", "correct the labels", ""},
		{"LabelDiffers", "a label differs from NVML, which counts, or from most labels", "look at who writes the label", ""},
		{"LabelWithoutDomain", "the label's value names no domain, such as N/A", "look at who writes the label", ""},
		{"LeavesApart", "there are several roots, or a root has no nodes", "set rootSwitch if one switch joins the roots; list empty leaves in forgetSwitches", ""},
		{"LinksDown", "a GPU has fewer active NVLinks than others; the node stays", "look at nvidia-smi nvlink -s and the kernel log; plan a repair", ""},
		{"NoBlock", "the file has them in no block", "", ""},
		{"NoFacts", "no report and no label names the NVLink domain", "start the agent, or label the node with its domain or switches", ""},
		{"NoGPUs", "no GPU", "", ""},
		{"NoNVLinkDomain", "NVLink ends in the machine", "label the node with its switches: Slurm schedules by the tree", ""},
		{"NoSwitch", "nothing names the switches above", "have the switches read, or label the nodes with them", ""},
		{"NodeGone", "the node is gone", "", "when the node leaves after removeAfter"},
		{"OtherTopology", "topology.conf holds one topology, and the rack's is another", "set format: yaml, or leave sizeClasses out", ""},
		{"ParentBlocks", "parentBlocks does not go with the blocks below a switch", "set parentBlocks as the message says, or label the nodes", ""},
		{"ProductsDiffer", "the node's GPUs are of another product than most in its clique", "look at which tray was exchanged", ""},
		{"RootAssumed", "no label joins the switches, and a root was put above them", "set rootSwitch, or fabrics: separate if no link joins them", ""},
		{"SizeClassesUnset", "racks of several sizes share a topology: jobs may use two racks", "set sizeClasses as the message says", ""},
		{"SmallDomain", "too few nodes for a block", "", "when a second node of the rack reports"},
		{"SwitchesUnknown", "no node has a place, because no switch is known", "have the switches read, label the nodes, or set flatTopology: true", ""},
		{"TopologiesApart", "racks are in several topologies, and no job runs across them", "set the key that the message names, if such jobs are wanted", ""},
		{"TwoCliques", "GPUs in two NVLink domains", "look at the cabling and the NVLink partitions", ""},
	}},
	{"Publishing", "Why files wait or are held, what Slurm does with a node, and what the conditions of Nodes say.", []Word{
		{"AnnotationConflict", "another writer owns an annotation or label of Quoin", "stop the other writer, or set annotate or labels to false", ""},
		{"AnnotationDiffers", "Quoin's annotation of the Node is not as published", "stop the writer that the message names, or let Slurm load the files", ""},
		{"BadResourceSlices", "ResourceSlices are missing, make no sense, or differ from labels", "look at NVIDIA's DRA driver and GPU Feature Discovery", ""},
		{"BaseSizeChange", "domains give another base block size; the published one stays", "approve, or set baseBlockSize to the published size", asPublished},
		{"BigChange", "more than maxChange (20 %) of the nodes change within an hour", "find out why; approve if that is right", "by itself if fewer nodes change; the changes of the last hour count"},
		{"BlockOverfull", "more nodes name the domain of a block than NVLink joins", "find out why; approve if the block really is that large", asPublished},
		{"FabricHealthy", "nothing is wrong with the NVLink fabric", "", ""},
		{"FabricLimitedCapacity", "a GPU's NVLink fabric works with less bandwidth, or recovers", "plan a repair if it lasts", ""},
		{"FabricMisconfigured", "a GPU's NVLink fabric is configured wrongly", "look at Fabric Manager and the GPU; drain the node", ""},
		{"FabricTextUnread", "lines of a text of a fabric cannot be read; the others count", "correct what writes the text, or leave it out of fabricFiles", ""},
		{"FabricUnhealthy", "a GPU's NVLink fabric is unhealthy", "look at Fabric Manager and the GPU; drain the node", ""},
		{"FabricUnread", "the report says nothing of the NVLink fabric", "look at the problems of the node's report", ""},
		{"FileNeverLoaded", "slurmctld has not loaded the files for loadTimeout", "run scontrol reconfigure (Slinky: set inplaceReconfigure); read slurmctld's log", ""},
		{"GresNamesNodes", "gres.conf names nodes that annotations place", "give each kind of machine its own NodeSet, so that gres.conf stays", ""},
		{"KindChange", "the first NVLink domain appeared; the published tree stays", "prepare slurm.conf and approve, or set topology: tree", asPublished},
		{"LabelsDiffer", "Quoin's labels of the Node are not as published", "stop the writer that the message names, or let Slurm load the files", ""},
		{"LeaveOutUnknown", "gres.leaveOut names a node or GPU that is not there", "correct the name; name a GPU that is gone by its device file", ""},
		{"LintFatal", "slurmctld would not load the new files", "mend what the message names; quoin lint shows all findings", ""},
		{"MembershipWaits", "some nodes have no annotation yet, so the file still names all nodes", "look for AnnotationDiffers if that lasts", ""},
		{"NoFabric", "no GPU of the node has an NVLink fabric, and none is missing", "", ""},
		{"NoGresLine", "a device file is unknown, or labels alone say MIG", "look at the report; for MIG without reports set gres.autoDetect: nvml", ""},
		{"NoPlan", "no plan can be made from this configuration", "change the key that the message names", ""},
		{"NoSlurmName", "what slurmNames reads is missing, or gives no valid Slurm node name", "label the node, or correct slurmNames", ""},
		{"NoWorkerPod", "no slurmd of the cluster runs on the node", "scale the NodeSet or correct the pod selector if the node belongs to Slurm", ""},
		{"NodeInTwoPublications", "several publications select the node; it stays where it is", "narrow one selector", ""},
		{"NodeUnreadable", "a node's file in the directory store cannot be parsed", "correct the file", ""},
		{"NotPublished", "no published plan has the node yet", "see what quoin plan status says is held", ""},
		{"NothingToPublish", "no node has a place or a line in gres.conf", "look at the reasons in quoin map", "by itself when a node has a place, or known GPUs if nothing was published"},
		{"PlanUnreadable", "the stored plan cannot be read", "restore the plan, or delete it: then the published files count", "when the stored plan is restored or deleted"},
		{"PublicationMoved", "the files have another place now; the old ones stay as they are", "let Slurm read the new files, then delete the old ones", ""},
		{"PublicationNotConfigured", "a stored publication is no longer configured; its files stay", "configure it again, or run the commands in the message", ""},
		{"PublishedDiffers", "the file has another place for the node than the plan", "approve what is held, or let the publisher write the file", ""},
		{"PublishedEdited", "somebody edited or deleted the files; they were written again", "change the configuration and not the files", ""},
		{"PublishedUnreadable", "no plan is stored, and the published files cannot be parsed", "restore the file, or remove its key", "when the published file is restored, or its key is removed"},
		{"ReleaseDiffers", "slurmVersion is not the release of Slurm that runs", "take slurmVersion out of the configuration", ""},
		{"Repartitioned", "NVLink partitions changed while nodes ran; the nodes stay", "approve when no such job runs, or put the partitions back", asPublished},
		{"ReportUnreadable", "the node's report cannot be parsed; the node keeps its place", "look at the agent", ""},
		{"RevisionUnknown", "quoin.dev/rollback names a revision that is not kept", "name one of quoin plan history, or remove the annotation", "when quoin.dev/rollback names a revision that is kept, or is removed"},
		{"RolledBack", "somebody went back to a revision; now every change waits", "find the cause, then approve the change", asPublished},
		{"RootsJoin", "one root would be put above published roots that nothing joins", "approve, or set fabrics: separate", asPublished},
		{"SlurmNameTaken", "several nodes have one Slurm name; published ones stay", "choose another slurmNames, or correct labels or NodeSets", ""},
		{"StoreEmpty", "nodes are published, and the store has no node and no report", "see that publisher and agents use the same store", ""},
		{"TooLarge", "the files are larger than a ConfigMap takes (1 MiB)", "set membership: annotation, publish one topology, or make more publications", ""},
		{"TopologiesChange", "a published topology would go that partitions may name", "change the partitions and approve, or take the key back", asPublished},
		{"TopologyInUse", "topology.conf would change its kind while annotations name units", "set format: yaml in between", asPublished},
		{"TwoSlurmClusters", "worker pods of several Slurm clusters run on the node", "set slurmNames: slinky:CONTROLLER", ""},
		{"TwoWorkerPods", "several worker pods run on the node; all have its place", "remove all pods but one, if pods share GPUs", ""},
	}},
	{"Slurm's files", "What quoin lint, quoin render and the publisher say of a set of files. The message names file and line, and says what to write.", []Word{
		{"AutoDetect", "AutoDetect does not go with the line, node, release or slurmd", "list the devices by File, or use another value", ""},
		{"BadTopology", "a topology has not one kind that Slurm knows, or not one is the default", "correct the entry", ""},
		{"BadValue", "Slurm cannot read a value, or the release does not know it", "correct the value", ""},
		{"BlockSizes", "a size is no number, not base x 2^k, not set, or above a block (24.11)", "correct BlockSizes, or give the block more nodes", ""},
		{"Cores", "cores of GPUs are no whole socket, or too many: the node is drained", "correct or leave out Cores=, then resume the node", ""},
		{"DevicesNotConstrained", "cgroup.conf lacks ConstrainDevices=yes: a job sees all GPUs of its node", "set ConstrainDevices=yes", ""},
		{"Duplicate", "two blocks, switches or topologies have one name, or a node two places", "rename one, or leave one out", ""},
		{"FewerGPUs", "a node has fewer GPUs than Gres=: Slurm drains the node", "lower Gres= of the node, and resume the node if it is drained", ""},
		{"GresForAll", "a line without NodeName lists devices that some nodes lack", "write NodeName=; with Slinky, give other nodes their own NodeSet", ""},
		{"GresLine", "slurmd refuses or ignores a line of gres.conf or Gres= of a node", "correct the line", ""},
		{"ImexChannels", "SwitchType or SwitchParameters does not go with IMEX as configured", "set or leave out what the message names", ""},
		{"Include", "an included file is absent, includes itself or could not be read", "give quoin lint the file, or put its lines into this file", ""},
		{"JobSplit", "Slurm splits a job that one block could hold", "set the base block size to the largest block, if such jobs matter", ""},
		{"MoreGPUs", "a node has more GPUs than Gres=: Slurm does not use them", "count the GPUs in Gres= of slurm.conf", ""},
		{"Name", "an entry has no name, or one that Slurm cannot use", "name the entry", ""},
		{"NoBlockRank", "ranks or SLURM_NODEID follow the nodes' names and not the blocks", "add BlockAsNodeRank to TopologyParam", ""},
		{"NoTopology", "the topology file is not there, or is empty", "write the file, or take TopologyPlugin out", ""},
		{"NodeTopology", "Topology= of NodeName goes before the file, or names what it lacks", "take Topology= out of slurm.conf", ""},
		{"NodesNowhere", "the topology of a partition lacks some of its nodes", "name another topology on the partition's line, or add the nodes", ""},
		{"NotATree", "switches form no tree", "correct Switches= of the switch", ""},
		{"NotJudged", "Quoin did not look into this", "check the file with Slurm; run the agent on nodes without a report", ""},
		{"NotRead", "Slurm does not read the file", "remove the file, or set the key that has Slurm read it", ""},
		{"Placeholder", "a block or switch has no nodes", "give it nodes, or take it out", ""},
		{"PrologTooShort", "a Prolog that waits for IMEX outlasts its limit", "raise the limit, or set PrologFlags=Alloc", ""},
		{"Syntax", "Slurm's parser does not take the line", "correct the line", ""},
		{"TreeTooLarge", "slurmctld may load so many switches or levels for minutes", "publish fewer levels", ""},
		{"UnknownGres", "a name in Gres= or gres.conf is not in GresTypes: Slurm ignores it", "add the name to GresTypes", ""},
		{"UnknownKey", "the release does not know a key", "correct the key, or take it out", ""},
		{"UnknownNode", "a node is not in slurm.conf", "add the node to slurm.conf, or take it out", ""},
		{"UnknownTopology", "a partition names a topology that is not there", "correct Topology= of the partition, or add the topology", ""},
	}},
	{"Files against Slurm, and jobs", "What quoin check and quoin fit say.", []Word{
		{"FitUnknown", "free nodes are not known, or Slurm alone knows the answer", "give --sinfo, set slurm.url or slurm.scontrol, or run sbatch --test-only", ""},
		{"NotCompared", "the files name no nodes, or slurmrestd shows no blocks", "give --nodes or --topology, or set slurm.scontrol", ""},
		{"NotInFile", "Slurm's topology has the node, and the file has not", "run scontrol reconfigure, or publish the node", ""},
		{"NotInSlurm", "the file has the node, and Slurm's topology has not", "run scontrol reconfigure; see that slurm.conf has the node", ""},
		{"SlurmDiffers", "Slurm has a node, block, switch or size otherwise than the files", "run scontrol reconfigure; look for Topology= in slurm.conf", ""},
	}},
}
