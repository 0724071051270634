package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/slurmconf/publisher"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
)

// slinky looks at the Controller that loads a publication's files, and at the Controller's NodeSets.
func (c *Cluster) slinky(f *findings, p *publication.Cluster) {
	if c.Missing["controllers"] != nil || !c.knows("controllers") {
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

// controllers are all Controllers.
func (c *Cluster) controllers() (all []inputs.Controller) {
	for i := range c.Objects["controllers"] {
		o := &c.Objects["controllers"][i]
		all = append(all, inputs.ReadController(o.GetNamespace(), o.GetName(), o.Object))
	}
	return all
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
	misnamed := c.nodeNames(f, p, at, sets)
	c.controller(f, p, c.named("controllers", at.Namespace, at.Name), misnamed)
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
	remedy := "take the names from the pods, and approve the new names when the publisher holds them; " + c.change("publications."+p.Name+".slurmNames", "slinky")
	if len(named) > 0 {
		f.fatal("slinky", remedy, "%s: Controller %s loads the files, and slurmNames is %s: Slurm calls the pods of %s otherwise than their Nodes, so the files name nodes that Slurm has not", p.Name, at, p.SlurmNames, strings.Join(named, ", "))
		return true
	}
	f.warn("slinky", remedy, "%s: Controller %s loads the files, and slurmNames is %s: the files have each Node that the publication takes, with a worker pod or without", p.Name, at, p.SlurmNames)
	return false
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

// refsKey is a key of a patch, with a list of references.
func refsKey(key string, names []string) string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = fmt.Sprintf(`{"name": %q}`, name)
	}
	return fmt.Sprintf(`%q: [%s]`, key, strings.Join(list, ", "))
}

// controller looks at what a Controller loads and calls. One patch corrects all that can be corrected
// now, because each patch may start slurmctld again.
func (c *Cluster) controller(f *findings, p *publication.Cluster, o *unstructured.Unstructured, misnamed bool) {
	before := len(*f)
	name := o.GetNamespace() + "/" + o.GetName()
	var wrong, patch []string
	if c.Missing["configmaps"] != nil {
		f.unknown("slinky", toSee(c.Missing["configmaps"]), "Controller %s: it is not known whether it names the right ConfigMaps", name)
	} else {
		wrong, patch = c.configFiles(f, p, o, misnamed)
		calls, scripts := c.hookScripts(f, o)
		wrong, patch = append(wrong, calls...), append(patch, scripts...)
	}
	if reloads, set, _ := unstructured.NestedBool(o.Object, "spec", "inplaceReconfigure"); !reloads && (set || c.hasKey(controllersDefinition, "inplaceReconfigure")) {
		wrong, patch = append(wrong, "inplaceReconfigure is off: changed files are not loaded until somebody runs scontrol reconfigure"), append(patch, `"inplaceReconfigure": true`)
	}
	if len(wrong) > 0 {
		command := fmt.Sprintf("%s -n %s patch controllers.slinky.slurm.net %s --type=merge -p ", c.Kubectl, o.GetNamespace(), o.GetName()) + config.Word(`{"spec": {`+strings.Join(patch, ", ")+`}}`)
		f.fatal("slinky", command, "Controller %s: %s", name, strings.Join(wrong, "; "))
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
	if len(*f) == before {
		f.ok("slinky", "Controller %s loads the files and calls the hook", name)
	}
}

// The ConfigMaps in which the chart writes the scripts that call the hook.
const (
	hookProlog = "quoin-hook-prolog"
	hookEpilog = "quoin-hook-epilog"
)

// hookScripts looks whether a Controller names the scripts that call the hook. It returns what a patch
// can correct now, and the patch's keys.
func (c *Cluster) hookScripts(f *findings, o *unstructured.Unstructured) (wrong, patch []string) {
	for _, script := range []struct{ key, ref, effect string }{
		{"prologScriptRefs", hookProlog, "no job is in the exporter's mapping"}, {"epilogScriptRefs", hookEpilog, "jobs keep their labels until the agent sees their end"}} {
		have := refs(o, script.key)
		if slices.Contains(have, script.ref) {
			continue
		}
		said := fmt.Sprintf("%s does not name %s: %s", script.key, script.ref, script.effect)
		if c.named("configmaps", o.GetNamespace(), script.ref) == nil {
			f.fatal("slinky", "let Quoin write it, and run doctor again: "+c.remedy(" --set hook.configMaps=true", "take a folder of manifests/plain that has it, such as slinky"), "Controller %s/%s: %s; there is no such ConfigMap", o.GetNamespace(), o.GetName(), said)
			continue
		}
		wrong, patch = append(wrong, said), append(patch, refsKey(script.key, append(have, script.ref)))
	}
	return wrong, patch
}

// siteFiles is the ConfigMap in which Slinky's chart writes configFiles of its values.
func siteFiles(controller *unstructured.Unstructured) string {
	return controller.GetName() + "-config-extra"
}

// controllerMaps are the ConfigMaps that are looked at for a Controller.
func controllerMaps(o *unstructured.Unstructured) (all []plandoc.Location) {
	for _, name := range append(refs(o, "configFileRefs"), siteFiles(o), hookProlog, hookEpilog) {
		all = append(all, plandoc.Location{Namespace: o.GetNamespace(), Name: name})
	}
	return all
}

// isPublication reports whether the publisher writes the ConfigMap, or did so.
func isPublication(cm *unstructured.Unstructured) bool {
	return cm != nil && cm.GetLabels()["quoin.dev/kind"] == "publication"
}

// configFiles looks at the ConfigMaps whose files a Controller loads. It returns what a patch can
// correct now, and the patch's key, which keeps the site's ConfigMaps. Otherwise it says what to wait
// for: slurmctld does not start without the blocks of its nodes.
func (c *Cluster) configFiles(f *findings, p *publication.Cluster, o *unstructured.Unstructured, misnamed bool) (wrong, patch []string) {
	namespace, name, have := o.GetNamespace(), o.GetNamespace()+"/"+o.GetName(), refs(o, "configFileRefs")
	if p.Namespace != namespace {
		f.fatal("slinky", "publish into that namespace: "+c.change("publications."+p.Name+".namespace", namespace),
			"Controller %s: %s publishes in namespace %s, and a Controller loads ConfigMaps of its own namespace", name, p.Name, p.Namespace)
		return nil, nil
	}
	var want []string
	if extra := siteFiles(o); !slices.Contains(have, extra) && c.named("configmaps", namespace, extra) != nil {
		want = append(want, extra)
		wrong = append(wrong, "configFileRefs does not name "+extra+": slurmctld does not get configFiles of Slinky's chart")
	}
	adds, replaces, lost := !slices.Contains(have, p.ConfigMap), false, ""
	for _, ref := range have {
		switch cm := c.named("configmaps", namespace, ref); {
		case ref == p.ConfigMap || cm != nil && !isPublication(cm):
			want = append(want, ref)
			continue
		case cm == nil:
			wrong = append(wrong, "configFileRefs names "+ref+", which does not exist")
		default:
			wrong = append(wrong, "configFileRefs names "+ref+", which has files of another publication")
			for _, file := range slices.Sorted(maps.Keys(c.filesOf(namespace, ref))) {
				if !slices.Contains(plandoc.OwnFiles, file) { // the publisher leaves the site's own files there
					lost = file + " of the site is in ConfigMap " + ref + ": put it into another one"
				}
			}
		}
		replaces = true
	}
	if adds {
		want = append(want, p.ConfigMap)
		wrong = append(wrong, "configFileRefs does not name "+p.ConfigMap+": slurmctld does not get the published files")
	}
	twice := c.twice(f, p, o, want)
	if len(wrong) == 0 {
		return nil, nil
	}
	why := c.notYet(p, replaces)
	switch {
	case twice:
		why = "a file would be there twice"
	case !adds && !replaces && c.named("configmaps", namespace, p.ConfigMap) != nil:
		why = "" // slurmctld has the files already
	case lost != "":
		why = lost
	case misnamed:
		why = "slurmNames of " + p.Name + " is wrong"
	}
	if why != "" {
		f.fatal("slinky", "when that is right, the patch is printed by: quoin doctor"+c.Again, "Controller %s: %s; not yet, because %s", name, strings.Join(wrong, "; "), why)
		return nil, nil
	}
	return wrong, []string{refsKey("configFileRefs", want)}
}

// twice names the files that two of a Controller's ConfigMaps have, and reports whether there are any.
func (c *Cluster) twice(f *findings, p *publication.Cluster, o *unstructured.Unstructured, names []string) (found bool) {
	type place struct{ file, in string }
	first := map[string]place{}
	for _, name := range append([]string{p.ConfigMap}, names...) { // another ConfigMap than the publication's must lose the file
		for _, file := range slices.Sorted(maps.Keys(c.filesOf(o.GetNamespace(), name))) {
			what := file
			if file == "topology.conf" { // Slurm loads one topology file
				what = "topology.yaml"
			}
			other, taken := first[what]
			if !taken {
				first[what] = place{file, name}
			} else if other.in != name {
				found = true
				from := "ConfigMap " + name
				if name == siteFiles(o) {
					from = "configFiles of Slinky's chart, as manifests/docs/slinky.md says"
				}
				f.fatal("slinky", "take "+file+" out of "+from, "Controller %s/%s: %s is in ConfigMap %s, and %s in ConfigMap %s: slurmctld loads one of the two", o.GetNamespace(), o.GetName(), other.file, other.in, file, name)
			}
		}
	}
	return found
}

// filesOf are the files of a ConfigMap.
func (c *Cluster) filesOf(namespace, name string) map[string]string {
	cm := c.named("configmaps", namespace, name)
	if cm == nil {
		return nil
	}
	files, _, _ := unstructured.NestedStringMap(cm.Object, "data")
	return files
}

// notYet says why a Controller must not get a publication's files yet, or "". replaces says that the
// Controller loads files of another publication: then the new files must have the places of nodes.
func (c *Cluster) notYet(p *publication.Cluster, replaces bool) string {
	set, name := c.published(p), "ConfigMap "+p.Place().String()
	files := set.Own()
	switch {
	case set == nil:
		return name + " does not exist"
	case !isPublication(c.named("configmaps", p.Namespace, p.ConfigMap)):
		return name + " is somebody else's"
	case len(files) == 0:
		return name + " has no files"
	}
	for _, stands := range set.Findings(c.Now) {
		switch {
		case stands.Thing == plandoc.AboutHeld:
			return "changes of " + name + " are held"
		case stands.Thing == plandoc.AboutPlan && stands.Severity != topology.OK && replaces:
			return name + " has no plan yet, and slurmctld does not start without the blocks of its nodes"
		}
	}
	for _, found := range p.Lint(files, nil) {
		if found.Severity == topology.Fatal {
			return "slurmctld would not load " + name + ": " + found.String()
		}
	}
	if differs := publisher.JudgeRelease(p, files); differs != nil && differs.Severity == topology.Fatal {
		return differs.Message
	}
	return ""
}

// hasKey reports whether the definition of a kind has a key of spec. Operator 1.1 always
// reconfigures and has no inplaceReconfigure.
func (c *Cluster) hasKey(definition, key string) bool {
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
func (c *Cluster) nodeSet(f *findings, o *unstructured.Unstructured) {
	wanted := []string{podHooks, rundir.DefaultRunDir}
	if dir := c.mappingDir(); dir != "none" && dir != "" {
		wanted = append(wanted, dir)
	}
	if set := c.own("daemonsets", "agent"); set != nil {
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
	if c.Missing["deviceclasses"] != nil || c.ConfigErr != nil {
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
