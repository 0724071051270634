package lint_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/test/rig/oracle"
	"github.com/quoin-hpc/quoin/topology"
)

// TestRealGres has Lint and slurmd judge lines of gres.conf.
func TestRealGres(t *testing.T) {
	eachRelease(t, func(t *testing.T, release slurmconf.Release) {
		compareGres(t, release, gresTexts(), 4)
	})
}

// TestRealGeneratedGres compares generated texts.
func TestRealGeneratedGres(t *testing.T) {
	eachRelease(t, func(t *testing.T, release slurmconf.Release) {
		rng := oracle.Rand(t)
		texts := make([]string, oracle.Rounds(40, 300))
		for i := range texts {
			texts[i] = generateGres(rng)
		}
		n := compareGres(t, release, texts, 4, 9, 2, 0)
		t.Logf("Slurm %s: %d of %d generated texts were fatal", release, n, len(texts))
		if n < len(texts)/10 || n > len(texts)*9/10 {
			t.Errorf("%d of %d were fatal: the generator is lopsided", n, len(texts))
		}
	})
}

// compareGres has Lint and the slurmd of node n001 judge every text, where
// slurm.conf gives the node one or another number of gpus.
func compareGres(t *testing.T, release slurmconf.Release, texts []string, gpus ...int) (fatal int) {
	t.Helper()
	s := startSlurm(t, release)
	skipped := 0
	o := lint.Options{Release: release, KnownNodes: []string{gresNode}, GresTypes: []string{"gpu", "nic"}}
	for i, text := range texts {
		text += "\n"
		n := gpus[i%len(gpus)]
		counted := fmt.Sprintf(" Gres=gpu:%d,nic:99", n)
		if n == 0 {
			counted = " Gres=nic:99"
		}
		o.Nodes = map[string]*lint.Node{gresNode: {Sockets: 1, CoresPerSocket: 1, ThreadsPerCore: 1}}
		if n > 0 {
			o.Nodes[gresNode].Gres.GPUs = []gres.GPUCount{{Count: uint64(n)}}
		}
		o.Found = map[string]gres.Registration{gresNode: {Count: n, Sockets: 1}} // only what slurmd refuses is compared
		real, complaints := s.gresFatal(realConfig{gres: counted, files: map[string]string{"gres.conf": text}})
		if real {
			fatal++
		}
		files := []lint.File{{Name: "gres.conf", Data: []byte(text)}}
		findings := lint.Lint(files, o)
		if slices.ContainsFunc(findings, notJudged) || len(o.OtherGRES(files)) > 0 {
			skipped++
			continue
		}
		if got := topology.Has(slices.DeleteFunc(findings, ofSlurmctld), topology.Fatal); got != real {
			t.Errorf("Slurm %s with%s: Lint says fatal=%t, slurmd %t\n%s\nfindings: %v\nlog:\n%s", release, counted, got, real, text, findings, complaints)
		}
	}
	if skipped > len(texts)/3 {
		t.Errorf("Lint did not judge %d of %d texts", skipped, len(texts))
	}
	return fatal
}

// ofSlurmctld reports whether a finding is about what slurmctld does: slurmd starts.
func ofSlurmctld(f topology.Finding) bool {
	return slices.Contains([]string{"FewerGPUs", "Cores"}, f.Reason)
}

// gresTexts are the known kinds of good and bad gres.conf.
func gresTexts() []string {
	const files = "File=/dev/nvidia[0-3]"
	texts := []string{
		"Name=gpu Type=h200 " + files, "Name=gpu Type=h200 Count=8 " + files, "Name=gpu Count=2 " + files, "Name=gpu Count=4 " + files, "Name=gpu Count=4",
		"Name=gpu Foo=1 " + files, "Name=gpu MultipleFiles=/dev/nvidia0", "Name=gpu MultipleFiles=/dev/nvidia[0-1]", "Name=gpu Count=2 MultipleFiles=/dev/nvidia[0-1]", "Name=gpu MultipleFiles=/dev/nvidia[0-1] " + files,
		"Name=gpu File=/dev/nvidia[0-", "NodeName=n[001 Name=gpu " + files, "NodeName=zz Name=gpu " + files, "NodeName=n001 " + files, "NodeName=n001", "Type=a Name=gpu " + files,
		"Name=gpu Links=0,0,0,0 " + files, "Name=gpu Links=abc File=/dev/nvidia0", "Name=gpu CPUs=0-3 Files=/dev/nvidia[0-3]", "Name=gpu Link=-1 File=/dev/nvidia0",
		"AutoDetect=off", "AutoDetect=nvidia", "AutoDetect=off Name=gpu", "NodeName=n001 AutoDetect=off", "AutoDetect=nvidia\nName=gpu " + files,
		"Name=gpu Count=1K", "Name=gpu File=/dev/nvidia0 " + files, "Name=gpu", "hello", "# nothing", "Name=gpu File=",
		"Name=gpu Type=h200 Count=4\nName=gpu Type=h200 File=/dev/nvidia0", "Name=gpu Type=h200 File=/dev/nvidia[0-1]\nName=gpu File=/dev/nvidia[2-3]", "NodeName=n001 Name=gpu Type=h200 File=/dev/nvidia0\nNodeName=n002 Name=gpu File=/dev/nvidia0",
		"NodeName=n001 Name=gpu File=/dev/nvidia0\nNodeName=n[001-002] Name=gpu Count=1", "Name=gpu File=/dev/nvidia0,/dev/nvidia2 # two",
		"Name=gpu Type=a,b " + files, `Name=gpu Type=""`, `Name="" Count=1`,
		"Name=gpu Count=1T", `NodeName="" Name=gpu Foo=1`, "Name=gpu Count=2k " + files,
		// Lines that are there twice.
		"Name=gpu Type=h200 " + files + "\nName=gpu Type=h200 " + files, "NodeName=n001 Name=gpu " + files + "\nNodeName=n[001-002] Name=gpu " + files, "Name=gpu Count=2\nName=gpu Count=2", "Name=gpu Type=a Count=2\nName=gpu Type=a Count=2", "Name=gpu File=/dev/nvidia0\nName=gpu File=/dev/nvidia0", "Name=gpu File=/dev/nvidia0,/dev/nvidia0",
		"Name=gpu MultipleFiles=/dev/nvidia0,/dev/nvidia0", "Name=gpu MultipleFiles=/dev/nvidia[0-1]\nName=gpu MultipleFiles=/dev/nvidia[0-1]", "Name=gpu Type=x File=/dev/nvidia0\nName=gpu Type=y File=/dev/nvidia0", "NodeName=n001 Name=gpu File=/dev/nvidia0\nName=gpu File=/dev/nvidia[0-3]", "NodeName=n001 Name=gpu File=/dev/nvidia0\nName=gpu File=/dev/nvidia[0-2]",
		"NodeName=n002 Name=gpu Count=1\nNodeName=n001 Name=gpu Count=1", "NodeName=n[002-003] Name=gpu Count=1\nNodeName=n[001-002] Name=gpu Count=1", "Name=GPU Count=1\nName=gpu Count=1",
		// Flags.
		"Name=gpu File=/dev/nvidia0 Flags=nvidia_gpu_env\nName=gpu File=/dev/nvidia1 Flags=amd_gpu_env", "Name=gpu File=/dev/nvidia0 Flags=nvidia_gpu_env\nName=gpu File=/dev/nvidia1", "Name=gpu File=/dev/nvidia0\nName=gpu File=/dev/nvidia1 Flags=nvidia_gpu_env", "Name=gpu Flags=nvidia_gpu_env,no_gpu_env " + files, "Name=gpu Flags=no_gpu_env " + files, "Name=gpu Flags=NO_GPU_ENV,opencl_env " + files,
		"Name=gpu Flags=xnvidia_gpu_envy File=/dev/nvidia0\nName=gpu Flags=nvidia_gpu_env File=/dev/nvidia1",
		"NodeName=n002 Name=gpu Flags=amd_gpu_env File=/dev/nvidia0\nNodeName=n001 Name=gpu Flags=nvidia_gpu_env File=/dev/nvidia1",
		// Keys given twice.
		"Name=gpu File=/dev/nvidia0 Files=/dev/nvidia[0-1] Count=1", "NodeName=n001 NodeName=n002 Name=gpu Count=1", "AutoDetect=off AutoDetect=off",
		// Lines for nobody.
		"NodeName=n002 Name=gpu Foo=1", "NodeName=n002 Name=gpu Flags=no_gpu_env,opencl_env Count=1", "NodeName=n[001 Name=gpu Count=x", "NodeName=n001{x} Name=gpu Count=x", "NodeName=n001,n001 Name=gpu Count=1", "NodeName=n001 Name=gpu Count=1\nNodeName=n001,n[001 Name=gpu Count=1", "NodeName=n001 AutoDetect=off Count=x", "NodeName=n001 Count=x",
		// Values.
		"Name=gpu Links=-1,-1 File=/dev/nvidia0", "Name=gpu Links=-1,x File=/dev/nvidia0", "Name=gpu Links=-1,99999 File=/dev/nvidia0", "Name=gpu Links=-1,0,0 File=/dev/nvidia0", "Name=gpu Type=" + strings.Repeat("h", 300) + " " + files, "Name=gpu Type=a[1-2] " + files,
		"Name=gpu File=/dev/nvidia[0,2]", "Name=gpu File=/dev/null", "Name=gpu File=/etc/passwd", "Name=gpu File=/dev", "Name=gpu File=/etc/passwd/[1-", "Name=gpu File=/dev/nvidia[0-]", "Name=gpu File=/dev/nvidia[1-0]",
		// Form.
		"Name=gpu \\\n" + files, "Name=gpu " + files + " # x \\\nFoo=1", "Name=gpu " + files + " Count=4#", " NAME = gpu " + files, `Name="gpu" Type="a b" ` + files, "Name=gpu\tCount=4", "Name=gpu Count=4\r", "NodeName=n[001-002]Name=gpu Count=x", "NodeName=n001, n002 Name=gpu Count=x", "Name=gpu Count=1 NodeName=n001",
	}
	for _, count := range []string{"1", "2", "4", "1K", "1m", "16P", "16384P", "9223372036854775806", "-1", "1KB", "4x"} {
		texts = append(texts, "Name=gpu Count="+count, "Name=gpu Count="+count+" "+files)
	}
	for _, cores := range []string{"0-15", "0-16", "99", "0,0", "0-3,8-11", "1-", "all"} {
		texts = append(texts, "Name=gpu Cores="+cores+" "+files, "Name=gpu CPUs="+cores+" "+files)
	}
	ways := []string{"nvml", "NVIDIA", "rsmi", "oneapi", "nrt", "off", "full", "none"}
	for _, way := range ways {
		texts = append(texts, "AutoDetect="+way, "NodeName=n001 AutoDetect="+way, "NodeName=n001 AutoDetect="+way+" Name=gpu "+files, "NodeName=n002 AutoDetect=nvidia\nNodeName=n001 AutoDetect="+way, "AutoDetect=nvidia\nNodeName=n001 AutoDetect="+way, "AutoDetect=off\nAutoDetect="+way)
		texts = append(texts, "NodeName=n001 AutoDetect="+way+"\nNodeName=n001 AutoDetect="+way)
	}
	return append(texts, "NodeName=n001 AutoDetect=off AutoDetect=nvidia\nNodeName=n001 AutoDetect=nvidia", "AutoDetect=off NodeName=n001", "Name=gpu AutoDetect=off Count=1\nName=nic AutoDetect=nvml Count=1")
}

// generateGres makes one gres.conf, mostly of lines that go together.
func generateGres(rng *rand.Rand) string {
	g := gresGenerator{rng: rng, typed: rng.IntN(2) == 0, files: rng.IntN(4) > 0, flags: pick(rng, "", "", "nvidia_gpu_env", "nvidia_gpu_env", "no_gpu_env", "amd_gpu_env,opencl_env")}
	lines := make([]string, 1+rng.IntN(4))
	for i := range lines {
		lines[i] = g.line(i)
	}
	if rng.IntN(8) == 0 {
		lines = append(lines, pick(rng, "AutoDetect=off", "AutoDetect=nvidia", "# AutoDetect", "", "AutoDetect=x y=z", "hello", lines[0]))
	}
	rng.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	return strings.Join(lines, "\n")
}

// gresGenerator is what the lines of one text have in common.
type gresGenerator struct {
	rng          *rand.Rand
	typed, files bool
	flags        string
}

// odd is true once in n times.
func (g *gresGenerator) odd(n int) bool { return g.rng.IntN(n) == 0 }

func (g *gresGenerator) line(i int) string {
	rng := g.rng
	name := "gpu"
	if g.odd(40) {
		name = pick(rng, "nic", "GPU")
	}
	words := []string{"Name=" + name}
	if rng.IntN(3) > 0 {
		nodes := "n001"
		switch {
		case g.odd(40):
			nodes = pick(rng, "n0[01-02]", "n[001-]", "n[+01-3]", "n[01z-3]", "n001,n[x]", `""`, "r[x]s[1]n[1],n001", "]n[001,002]", "n[1x-3]", "block{n001}")
		case g.odd(3):
			nodes = pick(rng, "n001", "n[001-002]", "n[001-016]", "n[000-003]", "n001,n001", "n002", "n[002-016]", "zz", "n[1-3]", "n[001", "n[3-1]")
		}
		words = append([]string{"NodeName=" + nodes}, words...)
		if g.odd(12) {
			words = append(words, "AutoDetect="+pick(rng, "off", "off", "off", "off", "nvidia", "nvidia", "full", "bogus", "nvml,off"))
		}
		if g.odd(25) {
			words = slices.Delete(words, 1, 2)
		}
	}
	devices := 0
	if g.files != g.odd(60) {
		var word string
		word, devices = g.device(i)
		words = append(words, word)
	}
	if g.typed != g.odd(60) {
		words = append(words, "Type="+pick(rng, "h200", "h200", "a", fmt.Sprintf("t%d", i)))
	}
	if g.odd(4) || devices == 0 {
		count := fmt.Sprint(max(devices, 1))
		switch {
		case g.odd(8):
			count = pick(rng, "2", "3", "4", "1K")
		case g.odd(40):
			count = pick(rng, "0", "x", "-1", "-3", "2kb", "+1", `""`, "1x", "00", "K", "18446744073709551615")
		}
		words = append(words, "Count="+count)
	}
	switch flags := g.flags; {
	case g.odd(10):
		words = append(words, "Flags="+pick(rng, "nvidia_gpu_env", "amd_gpu_env", "no_gpu_env", "no_gpu_env,intel_gpu_env", "opencl_env,nvidia_gpu_env", "Nvidia_GPU_Env", "NVIDIA_gpu_env,nvidia_gpu_env"))
	case g.odd(40):
		words = append(words, "Flags="+pick(rng, "explicit", "all_sharing", "countonly", "bogus", ",", "Nvidia_GPU_Env,bogus", `""`))
	case flags != "" && !g.odd(8):
		words = append(words, "Flags="+flags)
	}
	if g.odd(8) {
		words = append(words, pick(rng, "Cores=0-3", "Cores=0-15", "Cores=99", "CPUs=1", "Links=-1,0", "Links=0", "Link=-1"))
	}
	if g.odd(40) {
		words = append(words, pick(rng, words[len(words)-1], "Cores=x", "Foo=1", "# Foo=1", "\\\n Count=1", "Count=1", "Name=gpu", "name=nic", "x", "Files=/dev/null", "NodeName=n001", "MultipleFiles=/dev/null,/dev/zero", "; Count=x"))
	}
	from := min(2, len(words))
	rng.Shuffle(len(words)-from, func(i, j int) { words[from+i], words[from+j] = words[from+j], words[from+i] })
	return strings.Join(words, " ")
}

// device writes files that are there, mostly others on each line.
func (g *gresGenerator) device(i int) (word string, count int) {
	switch g.rng.IntN(20) {
	case 0:
		return "File=/dev/nvidia[0-3]", 4
	case 1:
		return "File=/dev/nvidia[0-1,3]", 3
	case 2:
		return fmt.Sprintf("Files=/dev/nvidia%d,/dev/null", i), 2
	case 3:
		return "MultipleFiles=/dev/nvidia[0-1]", 1
	case 4:
		return pick(g.rng, "File=/dev/nvidia[0-", "File=/dev/nvidia[1-0]", "MultipleFiles=/dev/nvidia0", "File=/dev/null,/dev/null"), 1
	case 5:
		if g.odd(3) {
			return pick(g.rng, "File=/dev/nvidia[0-]", "File=/dev/nvidia[0,,1]", `File=""`, "File=,", "File=/dev/nvidia[0x-1]", "File=r[x]s[1-2]n[1]"), 1
		}
	}
	return fmt.Sprintf("File=/dev/nvidia%d", i), 1
}
