package doctor

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
)

// slinky looks at the Controllers of a publication's namespace, and at their NodeSets.
func (c checks) slinky(f *findings, p *publication.Cluster, s *Site) {
	if c.Missing["controllers"] != nil || !c.knows("controllers") {
		return
	}
	found := false
	for i := range c.Objects["controllers"] {
		if o := &c.Objects["controllers"][i]; o.GetNamespace() == p.Namespace {
			found = true
			c.controller(f, p, o)
		}
	}
	if !found && strings.HasPrefix(p.SlurmNames, "slinky") {
		f.warn("slinky", "install Slinky's slurm chart, or correct the key namespace of the publication", "%s: slurmNames is %s, and namespace %s has no Controller", p.Name, p.SlurmNames, p.Namespace)
	}
	var named []string // NodeSets whose pods have names of their own
	for i := range c.Objects["nodesets"] {
		if o := &c.Objects["nodesets"][i]; o.GetNamespace() == p.Namespace {
			c.nodeSet(f, o, s)
			if onHost, _, _ := unstructured.NestedBool(o.Object, "spec", "template", "spec", "hostNetwork"); !onHost && !strings.EqualFold(text(o, "spec", "scalingMode"), inputs.ScalingModeDaemonSet) {
				named = append(named, o.GetNamespace()+"/"+o.GetName())
			}
		}
	}
	if found {
		c.nodeNames(f, p, named)
	}
}

// nodeNames looks whether a publication calls nodes as their Nodes although Slinky runs their slurmd. named
// are the NodeSets whose pods have other names.
func (c checks) nodeNames(f *findings, p *publication.Cluster, named []string) {
	if kind, _, _ := strings.Cut(p.SlurmNames, "/"); kind != "short" && kind != "full" && kind != "s" {
		return
	}
	remedy := "take the names from the pods, and approve the new names when the publisher holds them; " + c.change("publications."+p.Name+".slurmNames", "slinky")
	if len(named) > 0 {
		f.fatal("slinky", remedy, "%s: namespace %s has a Controller, and slurmNames is %s: Slurm calls the pods of %s otherwise than their Nodes, so the files name nodes that Slurm has not", p.Name, p.Namespace, p.SlurmNames, strings.Join(named, ", "))
		return
	}
	f.warn("slinky", remedy, "%s: namespace %s has a Controller, and slurmNames is %s: the files have each Node that the publication takes, with a worker pod or without", p.Name, p.Namespace, p.SlurmNames)
}

// patch is the command that sets a key of a Controller.
func (c *Cluster) patch(o *unstructured.Unstructured, spec string) string {
	return fmt.Sprintf("%s -n %s patch controllers.slinky.slurm.net %s --type=merge -p ", c.Kubectl, o.GetNamespace(), o.GetName()) + config.Word(`{"spec":{`+spec+`}}`)
}

// refs are the names in a list of references.
func refs(o *unstructured.Unstructured, key string) []string {
	var names []string
	for _, ref := range objectsAt(o.Object, "spec", key) {
		name, _ := ref["name"].(string)
		names = append(names, name)
	}
	return names
}

func (c checks) controller(f *findings, p *publication.Cluster, o *unstructured.Unstructured) {
	before := len(*f)
	name := o.GetNamespace() + "/" + o.GetName()
	for key, ref := range map[string]string{"configFileRefs": p.ConfigMap, "prologScriptRefs": "quoin-hook-prolog", "epilogScriptRefs": "quoin-hook-epilog"} {
		have := refs(o, key)
		if slices.Contains(have, ref) {
			continue
		}
		var list strings.Builder
		for _, other := range have {
			fmt.Fprintf(&list, `{"name":%q},`, other)
		}
		effect := map[string]string{"configFileRefs": "slurmctld does not get the published files", "prologScriptRefs": "no job is in the exporter's mapping",
			"epilogScriptRefs": "jobs keep their labels until the agent sees their end"}[key]
		f.fatal("slinky", c.patch(o, fmt.Sprintf(`"%s":[%s{"name":"%s"}]`, key, list.String(), ref)), "Controller %s: %s does not name %s: %s", name, key, ref, effect)
	}
	if reloads, set, _ := unstructured.NestedBool(o.Object, "spec", "inplaceReconfigure"); !reloads && (set || c.hasKey(controllersDefinition, "inplaceReconfigure")) {
		f.fatal("slinky", c.patch(o, `"inplaceReconfigure":true`), "Controller %s: inplaceReconfigure is off: changed files are not loaded until somebody runs scontrol reconfigure", name)
	}
	conf := strings.ToLower(text(o, "spec", "extraConf"))
	flags := "contain" // the operator's own; a line of extraConf replaces it
	for line := range strings.Lines(conf) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "prologflags="); ok {
			flags = value
		}
	}
	if !strings.Contains(flags, "contain") {
		f.fatal("slinky", "take PrologFlags out of spec.extraConf of the Controller, or add Contain to it", "Controller %s: PrologFlags has no Contain: nobody sees the end of a job whose worker pod is killed, and its GPUs keep its label for up to 25 minutes", name)
	}
	slices.SortFunc((*f)[before:], func(a, b topology.Finding) int { return strings.Compare(a.Message, b.Message) })
	if len(*f) == before {
		f.ok("slinky", "Controller %s loads the files and calls the hook", name)
	}
}

// hasKey reports whether the definition of a kind has a key of spec. Operator 1.1 always
// reconfigures and has no inplaceReconfigure.
func (c checks) hasKey(definition, key string) bool {
	crd := c.named("customresourcedefinitions", "", definition)
	if crd == nil {
		return false
	}
	for _, version := range objectsAt(crd.Object, "spec", "versions") {
		if _, there, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema", "properties", "spec", "properties", key); there {
			return true
		}
	}
	return false
}

// nodeSet looks at what slurmd's pods mount.
func (c checks) nodeSet(f *findings, o *unstructured.Unstructured, s *Site) {
	wanted := []string{"/opt/quoin/bin", "/run/quoin"}
	if s.MappingDir != "none" && s.MappingDir != "" {
		wanted = append(wanted, s.MappingDir)
	}
	if set := c.own("daemonsets", "agent"); set != nil {
		for _, container := range objectsAt(set.Object, "spec", "template", "spec", "initContainers") {
			for _, m := range objectsAt(container, "volumeMounts") {
				if path, _ := m["mountPath"].(string); m["name"] == "bin" && path != "" {
					wanted[0] = path
				}
			}
		}
	}
	mounted := map[string]string{} // path -> volume
	for _, m := range objectsAt(o.Object, "spec", "slurmd", "volumeMounts") {
		path, _ := m["mountPath"].(string)
		mounted[path], _ = m["name"].(string)
	}
	hosts := map[string]string{} // volume -> path of the host
	for _, v := range objectsAt(o.Object, "spec", "template", "spec", "volumes") {
		name, _ := v["name"].(string)
		hosts[name], _, _ = unstructured.NestedString(v, "hostPath", "path")
	}
	var missing []string
	for _, path := range wanted {
		if hosts[mounted[path]] != path {
			missing = append(missing, path)
		}
	}
	name := o.GetNamespace() + "/" + o.GetName()
	if len(missing) > 0 {
		f.fatal("slinky", c.volumes(), "NodeSet %s does not mount the host's %s: the hook is not found, or writes where nobody reads", name, strings.Join(missing, ", "))
		return
	}
	f.ok("slinky", "NodeSet %s mounts what the hook needs", name)
}

// exporter looks at GPU Operator's DCGM Exporter.
func (c checks) exporter(f *findings, s *Site) {
	if !c.knows("clusterpolicies") || s.MappingDir == "none" {
		return
	}
	if s.MappingDir == "" {
		f.unknown("exporter", moreRights, "it is not known which directory the hook writes: the agents' configuration cannot be read")
		return
	}
	for i := range c.Objects["clusterpolicies"] {
		o := &c.Objects["clusterpolicies"][i]
		on, _, _ := unstructured.NestedBool(o.Object, "spec", "dcgmExporter", "hpcJobMapping", "enabled")
		dir := text(o, "spec", "dcgmExporter", "hpcJobMapping", "directory")
		set := fmt.Sprintf("%s patch clusterpolicy %s --type=merge -p ", c.Kubectl, o.GetName()) + config.Word(fmt.Sprintf(`{"spec":{"dcgmExporter":{"hpcJobMapping":{"enabled":true,"directory":%q}}}}`, s.MappingDir))
		switch {
		case !on:
			f.fatal("exporter", set, "ClusterPolicy %s: hpcJobMapping is off: GPU metrics have no job", o.GetName())
		case dir != "" && dir != s.MappingDir:
			f.fatal("exporter", set, "ClusterPolicy %s: the exporter reads %s, and the hook writes %s", o.GetName(), dir, s.MappingDir)
		default:
			f.ok("exporter", "DCGM Exporter reads %s", s.MappingDir)
		}
	}
}

// classes says whether NVIDIA's DRA driver serves ComputeDomains.
func (c checks) classes(f *findings, s *Site) {
	if c.Missing["deviceclasses"] != nil || s.ConfigErr != nil || s.Join == "none" || s.Join == "host" {
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
			"nodes join as %s, and there is no DeviceClass %s", s.Join, strings.Join(missing, ", "))
		return
	}
	f.ok("deviceclasses", "NVIDIA's DRA driver serves channels and daemons")
}
