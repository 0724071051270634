package switches

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"
)

// fleet writes the text of a fabric of three tiers: groups of 32 nodes with eight rails, pods of 16
// groups with 64 spines, and 64 cores.
func fleet(w io.Writer, nodes int) {
	const rails, perGroup, perPod, spines, cores, uplinks = 8, 32, 16, 64, 64, 32
	leafGUID := func(g, rail int) uint64 { return 0x2c5eab0300000000 | uint64(g)<<12 | uint64(rail)<<8 }
	spineGUID := func(pod, s int) uint64 { return 0x2c5eab0400000000 | uint64(pod)<<16 | uint64(s)<<8 }
	coreGUID := func(c int) uint64 { return 0x2c5eab0500000000 | uint64(c)<<8 }
	nodeGUID := func(n, rail int) uint64 { return 0xe09d730300000000 | uint64(n)<<8 | uint64(rail)<<2 }
	header := func(guid uint64, text string) {
		fmt.Fprintf(w, "\nvendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0x%x\nswitchguid=0x%x(%x)\nSwitch\t65 \"S-%016x\"\t\t# \"MF0;%s:MQM9701/U1\" enhanced port 0 lid 73 lmc 0\n", guid, guid, guid, guid, text)
	}
	groups := (nodes + perGroup - 1) / perGroup
	pods := (groups + perPod - 1) / perPod
	leaf := func(g, rail int) string { return fmt.Sprintf("A09-P1-IBLEAF-%03d-%02d", g, rail) }
	spine := func(pod, s int) string { return fmt.Sprintf("A10-P1-IBSPINE-%02d-%02d", pod, s) }
	for g := range groups {
		for rail := range rails {
			header(leafGUID(g, rail), leaf(g, rail))
			for i := range min(perGroup, nodes-g*perGroup) {
				n := g*perGroup + i
				fmt.Fprintf(w, "[%d]\t\"H-%016x\"[1](%x) \t\t# \"a08-p1-dgx-%05d mlx5_%d\" lid 647 4xNDR\n", i+1, nodeGUID(n, rail), nodeGUID(n, rail), n, rail)
			}
			for u := range uplinks {
				s := rail*spines/rails + u%(spines/rails)
				fmt.Fprintf(w, "[%d]\t\"S-%016x\"[%d]\t\t# \"MF0;%s:MQM9701/U1\" lid 236 4xNDR\n", 33+u, spineGUID(g/perPod, s), 1+g%perPod*4+u*rails/spines, spine(g/perPod, s))
			}
		}
	}
	for pod := range pods {
		for s := range spines {
			header(spineGUID(pod, s), spine(pod, s))
			rail := s * rails / spines
			for i := range min(perPod, groups-pod*perPod) {
				g := pod*perPod + i
				for u := range uplinks {
					if rail*spines/rails+u%(spines/rails) == s {
						fmt.Fprintf(w, "[%d]\t\"S-%016x\"[%d]\t\t# \"MF0;%s:MQM9701/U1\" lid 73 4xNDR\n", 1+i*4+u*rails/spines, leafGUID(g, rail), 33+u, leaf(g, rail))
					}
				}
			}
			for c := range cores {
				fmt.Fprintf(w, "[%d]\t\"S-%016x\"[%d]\t\t# \"MF0;core-%02d:MQM9701/U1\" lid 236 4xNDR\n", 101+c, coreGUID(c), 1+pod*spines+s, c)
			}
		}
	}
	for c := range cores {
		header(coreGUID(c), fmt.Sprintf("core-%02d", c))
		for pod := range pods {
			for s := range spines {
				fmt.Fprintf(w, "[%d]\t\"S-%016x\"[%d]\t\t# \"MF0;%s:MQM9701/U1\" lid 73 4xNDR\n", 1+pod*spines+s, spineGUID(pod, s), 101+c, spine(pod, s))
			}
		}
	}
	for n := range nodes {
		for rail := range rails {
			fmt.Fprintf(w, "\nvendid=0x2c9\ndevid=0x1021\nsysimgguid=0x%[1]x\ncaguid=0x%[1]x\nCa\t1 \"H-%016[1]x\"\t\t# \"a08-p1-dgx-%05[2]d mlx5_%[3]d\"\n[1](%[1]x) \t\"S-%016[4]x\"[%[5]d]\t\t# lid 686 lmc 0 \"MF0;%[6]s:MQM9701/U1\" lid 159 4xNDR\n",
				nodeGUID(n, rail), n, rail, leafGUID(n/perGroup, rail), n%perGroup+1, leaf(n/perGroup, rail))
		}
	}
}

// fleetFile writes the text of fleet to a file.
func fleetFile(b *testing.B, nodes int) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "fabric.txt")
	out, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	w := bufio.NewWriterSize(out, 1<<20)
	fleet(w, nodes)
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	if err := out.Close(); err != nil {
		b.Fatal(err)
	}
	return path
}

// peak returns a function that stops watching and returns the most memory that the program held, in MB.
func peak() func() float64 {
	runtime.GC()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var most uint64
	wg.Go(func() {
		sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
		for {
			metrics.Read(sample)
			most = max(most, sample[0].Value.Uint64()-sample[1].Value.Uint64())
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	return func() float64 {
		close(stop)
		wg.Wait()
		return float64(most) / 1e6
	}
}

func readFile(b *testing.B, path string) *Fabric {
	b.Helper()
	in, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	f, err := Read(in)
	if err != nil {
		b.Fatal(err)
	}
	return f
}

// BenchmarkFleet reads the cables of 10,000 nodes with eight rails, and places the nodes.
func BenchmarkFleet(b *testing.B) {
	const count = 10_000
	path := fleetFile(b, count)
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	nodes, _ := Hosts([]*Fabric{readFile(b, path)}, nil)
	if len(nodes) != count {
		b.Fatalf("%d hosts", len(nodes))
	}
	most := peak()
	for b.Loop() {
		f := readFile(b, path)
		r := Place([]*Fabric{f}, nodes, nil)
		if got := strings.Join(r.Tiers["a08-p1-dgx-00000"], " "); got != "leaf-2c5eab0300000000 spine-2c5eab0400000000 core-2c5eab0500000000" || len(r.Tiers) != count || len(r.Groups) != 313+20+1 {
			b.Fatalf("%d placed, %d groups, %s", len(r.Tiers), len(r.Groups), got)
		}
	}
	b.ReportMetric(most(), "peak-MB")
	b.ReportMetric(float64(info.Size())/1e6, "text-MB")
}
