package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// supported is a release range of a neighbour with which Quoin works.
type supported struct {
	name string
	// image is a part of the image's name by which a workload is known, or empty.
	image string
	// from is the first release, and to the last that was tried. Empty: none was run.
	from, to string
	// how says how that is known, and older what does not work before from.
	how, older string
}

// The neighbours. Releases after the last one may work: nobody tried.
var (
	ofKubernetes = supported{"Kubernetes", "", "1.30", "1.36", "1.36 in tests", "admission policies"}
	ofContainerd = supported{"containerd", "", "1.7", "1.7", "1.7 in the box", "CDI, by which claims reach containers"}
	ofDriver     = supported{"NVIDIA driver", "", "470", "580", "470 to 580 in tests, as fake libraries", "functions of NVML"}
	workloads    = []supported{
		{"slurm-operator", "slurm-operator", "1.1", "1.2", "1.1.0 in the box, 1.2.1 by hand", "topology by annotation"},
		{"DCGM Exporter", "dcgm-exporter", "4.1", "4.8", "4.2 to 4.8, its own code", "blank lines in the mapping"},
		{"DRA driver", "dra-driver", "0.4", "0.5", "0.4.1 and 0.5.0, real controllers in tests", "cliques of ComputeDomains"},
		{"GPU Operator", "/gpu-operator", "25.10.1", "", "its keys and labels in tests, by its documents", "hpcJobMapping of its DCGM Exporter"},
	}
	// ofGFD shares its image with NVIDIA's device plugin, so that its workload is known by its name.
	ofGFD = supported{"GPU Feature Discovery", "", "0.17", "", "its labels in tests, by its documents", "a clique by label"}
)

// Matrix lists the neighbours as rows of a table: name, first release, last release that was
// tried, how.
func Matrix() (rows [][4]string) {
	for _, s := range slices.Concat([]supported{ofKubernetes, ofContainerd, ofDriver}, workloads, []supported{ofGFD}) {
		rows = append(rows, [4]string{s.name, s.from, cmp.Or(s.to, "not run"), s.how})
	}
	return append(rows, [4]string{"Slurm", "24.11", "26.05", "24.11 and 26.05 in tests; 25.05 and 25.11 read in their source"})
}

// compare compares a release with the range. what names the thing that runs it.
func (s *supported) compare(f *findings, check, what, release string) {
	switch {
	case len(releaseOf(release)) < 2: // a build of its own
		f.ok(check, "%s is %s %s", what, s.name, release)
	case compareReleases(release, s.from) < 0 && s.to == "": // what it lacks, a site can have otherwise
		f.warn(check, "upgrade "+s.name, "%s is %s %s: %s needs %s", what, s.name, release, s.older, s.from)
	case s.to == "":
		f.ok(check, "%s is %s %s; Quoin reads what it writes, and was not run beside it", what, s.name, release)
	case compareReleases(release, s.from) < 0:
		f.problem(check, "upgrade "+s.name, "%s is %s %s: Quoin needs %s, for %s", what, s.name, release, s.from, s.older)
	case compareReleases(release, s.to) > 0:
		f.warn(check, "nothing, if all works; else report it", "%s is %s %s: nobody tried Quoin with releases after %s", what, s.name, release, s.to)
	default:
		f.ok(check, "%s is %s %s", what, s.name, release)
	}
}

// releaseOf returns the numbers of a release such as v1.36.3-eks-1, none if it has none.
func releaseOf(text string) (numbers []int) {
	for part := range strings.SplitSeq(strings.TrimPrefix(text, "v"), ".") {
		digits := part
		if end := strings.IndexFunc(part, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
			digits = part[:end]
		}
		n, err := strconv.Atoi(digits)
		if err != nil {
			break
		}
		if numbers = append(numbers, n); digits != part {
			break
		}
	}
	return numbers
}

// compareReleases compares the numbers that the range names: 1.36.3 is 1.36.
func compareReleases(release, of string) int {
	a, b := releaseOf(release), releaseOf(of)
	return slices.Compare(a[:min(len(a), len(b))], b)
}

// neighbours compares the releases of the neighbours with the matrix.
func (c checks) neighbours(f *findings) {
	for _, resource := range []string{"deployments", "daemonsets"} {
		for i := range c.Objects[resource] {
			o := &c.Objects[resource][i]
			image := imageOf(o)
			release, what := cmp.Or(tagOf(image), o.GetLabels()["app.kubernetes.io/version"]), o.GetNamespace()+"/"+o.GetName()
			if release == "" {
				continue
			}
			for k := range workloads {
				name, _, _ := strings.Cut(image, ":")
				if strings.Contains(name, workloads[k].image) {
					workloads[k].compare(f, "versions", what, release)
				}
			}
			if strings.Contains(o.GetName(), "gpu-feature-discovery") {
				ofGFD.compare(f, "versions", what, release)
			}
		}
	}
	c.machines(f)
}

// machines compares what the nodes with GPUs run.
func (c checks) machines(f *findings) {
	seen := map[string]int{}
	for i := range c.Objects["machines"] {
		o := &c.Objects["machines"][i]
		runtime := text(o, "status", "nodeInfo", "containerRuntimeVersion")
		seen["kubelet "+text(o, "status", "nodeInfo", "kubeletVersion")]++
		seen["runtime "+runtime]++
		if release := o.GetLabels()["nvidia.com/cuda.driver-version.full"]; release != "" {
			seen["driver "+release]++
		}
	}
	kinds := make([]string, 0, len(seen))
	for kind := range seen {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		what, release, _ := strings.Cut(kind, " ")
		nodes := fmt.Sprintf("the %s of %d nodes with GPUs", what, seen[kind])
		containerdRelease, isContainerd := strings.CutPrefix(release, "containerd://")
		switch {
		case what == "kubelet":
			ofKubernetes.compare(f, "runtime", nodes, release)
		case what == "driver":
			ofDriver.compare(f, "driver", nodes, release)
		case isContainerd:
			ofContainerd.compare(f, "runtime", nodes, containerdRelease)
		default:
			f.warn("runtime", "see that it reads CDI files, if the site uses DRA", "%s is %s: only containerd was tried", nodes, release)
		}
	}
}

// classes says whether NVIDIA's DRA driver serves ComputeDomains.
func (c checks) classes(f *findings, s *Site) {
	if c.Missing["deviceclasses"] != nil || s.Join == "none" || s.Join == "host" {
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
		f.problem("deviceclasses", "install NVIDIA's DRA driver with compute domains (resources.computeDomains.enabled=true), or set imex.join: host or none",
			"nodes join as %s, and there is no DeviceClass %s", s.Join, strings.Join(missing, ", "))
		return
	}
	f.ok("deviceclasses", "NVIDIA's DRA driver serves channels and daemons")
}
