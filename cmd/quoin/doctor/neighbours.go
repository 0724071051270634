package doctor

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

// slinky looks at the Controller that loads a publication's files, and at the Controller's NodeSets.
func (c *Cluster) slinky(f *findings, p *publication.Cluster) {
	if !c.knows("controllers") {
		return
	}
	loader, at := p.Loader(c.controllers())
	switch loader {
	case publication.LoaderUnknown:
		f.unknown("slinky", nameOne, "%s: it is not known which Controller loads the files, because namespace %s has several and neither nodes.slinky nor slurmNames names one", p.Name, p.Namespace)
	case publication.LoaderAbsent:
		if remedy := "install Slinky's slurm chart, or correct "; at.Name != "" {
			f.warn("slinky", remedy+"nodes.slinky or slurmNames of the publication", "%s: nodes.slinky or slurmNames names Controller %s, which does not exist", p.Name, at)
		} else if p.Rules.BySlinky() {
			f.warn("slinky", remedy+"the key namespace of the publication", "%s: slurmNames is %s, and namespace %s has no Controller", p.Name, p.SlurmNames, p.Namespace)
		}
	case publication.LoaderNone:
		c.withoutSlurm(f, p)
	case publication.LoaderKnown:
		if names := c.loadedBy(at); len(names) > 1 {
			f.fatal("slinky", nameOne, "%s: publications %s are all for Controller %s, which loads the files of one", p.Name, strings.Join(names, ", "), at)
			return
		}
		c.known(f, p, at)
	}
}

// nameOne is the remedy for publications whose Controller is not clear.
const nameOne = "say by nodes.slinky of each publication which Controller it is for"

// withoutSlurm looks whether a publication is one that no Slurm loads: each Controller of the namespace
// must have another publication.
func (c *Cluster) withoutSlurm(f *findings, p *publication.Cluster) {
	seen := false
	for _, at := range c.controllers() {
		if at.Namespace != p.Namespace {
			continue
		}
		if seen = true; len(c.loadedBy(at)) == 0 {
			f.unknown("slinky", "say by nodes.slinky which publication Controller "+at.String()+" is for", "%s: it is not known whether Controller %s loads the files: annotate is false, no Slurm is asked, and slurmNames is %s", p.Name, at, p.SlurmNames)
			return
		}
	}
	if seen {
		f.ok("slinky", "%s: no Slurm loads the files: annotate is false, no Slurm is asked, and slurmNames is %s", p.Name, p.SlurmNames)
	}
}

// loadedBy are the names of the publications whose files a Controller loads.
func (c *Cluster) loadedBy(at inputs.Controller) (names []string) {
	for _, p := range c.Config.Clusters() {
		if loader, of := p.Loader(c.controllers()); loader == publication.LoaderKnown && of == at {
			names = append(names, p.Name)
		}
	}
	return names
}

// known looks at the Controller of one publication, and at its NodeSets.
func (c *Cluster) known(f *findings, p *publication.Cluster, at inputs.Controller) {
	var sets []*unstructured.Unstructured
	for i := range c.Objects["nodesets"] {
		if o := &c.Objects["nodesets"][i]; o.GetNamespace() == at.Namespace && text(o, "spec", "controllerRef", "name") == at.Name {
			sets = append(sets, o)
		}
	}
	of := controller{Cluster: c, findings: f, pub: p, object: c.named("controllers", at.Namespace, at.Name), name: at.String(), misnamed: c.nodeNames(f, p, at, sets)}
	of.check()
	for _, o := range sets {
		c.nodeSet(f, o)
	}
}

// nodeNames looks whether a publication calls nodes as their Nodes although Slinky runs their slurmd. It
// reports whether pods of the NodeSets have other names.
func (c *Cluster) nodeNames(f *findings, p *publication.Cluster, at inputs.Controller, sets []*unstructured.Unstructured) (misnamed bool) {
	if kind, _, _ := strings.Cut(p.SlurmNames, "/"); kind != "short" && kind != "full" && kind != "s" {
		return false
	}
	var named []string // NodeSets whose pods have names of their own
	for _, o := range sets {
		if pod, _ := part[corev1.PodSpec](o, pods...); !pod.HostNetwork && !strings.EqualFold(text(o, "spec", "scalingMode"), inputs.ScalingModeDaemonSet) {
			named = append(named, o.GetNamespace()+"/"+o.GetName())
		}
	}
	remedy := "take the names from the pods, and approve the new names when the publisher holds them; " + c.installed().change("publications."+p.Name+".slurmNames", "slinky")
	if len(named) > 0 {
		f.fatal("slinky", remedy, "%s: Controller %s loads the files, and slurmNames is %s: Slurm calls the pods of %s otherwise than their Nodes, so the files name nodes that Slurm has not", p.Name, at, p.SlurmNames, strings.Join(named, ", "))
		return true
	}
	f.warn("slinky", remedy, "%s: Controller %s loads the files, and slurmNames is %s: the files have each Node that the publication takes, with a worker pod or without", p.Name, at, p.SlurmNames)
	return false
}

// nodeSet looks at what slurmd's pods mount.
func (c *Cluster) nodeSet(f *findings, o *unstructured.Unstructured) {
	wanted := []string{podHooks, rundir.DefaultRunDir}
	if dir := c.mappingDir(); dir != "none" && dir != "" {
		wanted = append(wanted, dir)
	}
	if set := c.workload(componentAgent); set != nil {
		pod, _ := part[corev1.PodSpec](set, pods...)
		for _, container := range pod.InitContainers {
			for _, m := range container.VolumeMounts {
				if m.Name == "bin" {
					wanted[0] = m.MountPath
				}
			}
		}
	}
	slurmd, _ := part[corev1.Container](o, "spec", "slurmd")
	mounted := map[string]string{} // path -> volume
	for _, m := range slurmd.VolumeMounts {
		mounted[m.MountPath] = m.Name
	}
	pod, _ := part[corev1.PodSpec](o, pods...)
	hosts := map[string]string{} // volume -> path of the host
	for _, v := range pod.Volumes {
		if v.HostPath != nil {
			hosts[v.Name] = v.HostPath.Path
		}
	}
	var missing []string
	for _, path := range wanted {
		if hosts[mounted[path]] != path {
			missing = append(missing, path)
		}
	}
	name := o.GetNamespace() + "/" + o.GetName()
	if len(missing) > 0 {
		f.fatal("slinky", volumes, "NodeSet %s does not mount the host's %s: the hook is not found, or writes where nobody reads", name, strings.Join(missing, ", "))
		return
	}
	f.ok("slinky", "NodeSet %s mounts what the hook needs", name)
}

// exporter looks at GPU Operator's DCGM Exporter.
func (c *Cluster) exporter(f *findings) {
	writes := c.mappingDir()
	if !c.knows("clusterpolicies") || writes == "none" {
		return
	}
	if writes == "" {
		f.unknown("exporter", moreRights, "it is not known which directory the hook writes: the agents' configuration cannot be read")
		return
	}
	for i := range c.Objects["clusterpolicies"] {
		o := &c.Objects["clusterpolicies"][i]
		on, _, _ := unstructured.NestedBool(o.Object, "spec", "dcgmExporter", "hpcJobMapping", "enabled")
		dir := text(o, "spec", "dcgmExporter", "hpcJobMapping", "directory")
		set := fmt.Sprintf("%s patch clusterpolicy %s --type=merge -p ", c.Kubectl, o.GetName()) + config.Word(fmt.Sprintf(`{"spec":{"dcgmExporter":{"hpcJobMapping":{"enabled":true,"directory":%q}}}}`, writes))
		switch {
		case !on:
			f.fatal("exporter", set, "ClusterPolicy %s: hpcJobMapping is off: GPU metrics have no job", o.GetName())
		case dir != "" && dir != writes:
			f.fatal("exporter", set, "ClusterPolicy %s: the exporter reads %s, and the hook writes %s", o.GetName(), dir, writes)
		default:
			f.ok("exporter", "DCGM Exporter reads %s", writes)
		}
	}
}

// classes says whether NVIDIA's DRA driver serves ComputeDomains.
func (c *Cluster) classes(f *findings) {
	if c.ConfigErr != nil {
		return
	}
	join := c.membership().Join
	if join == imex.JoinNone || join == imex.JoinHost {
		return
	}
	const channel, daemon = "compute-domain-default-channel.nvidia.com", "compute-domain-daemon.nvidia.com"
	var missing []string
	for _, name := range []string{channel, daemon} {
		if c.named("deviceclasses", "", name) == nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		f.fatal("deviceclasses", "install NVIDIA's DRA driver with compute domains (resources.computeDomains.enabled=true), or set imex.join: host or none",
			"nodes join as %s, and there is no DeviceClass %s", join, strings.Join(missing, ", "))
		return
	}
	f.ok("deviceclasses", "NVIDIA's DRA driver serves channels and daemons")
}
