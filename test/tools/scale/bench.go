package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/test/rig/programs"
	"github.com/quoin-hpc/quoin/topology"
)

// configuration is the publisher's. Facts that keep changing delay a file by three seconds
// at most. Nodes that flap go to racks whose places are all taken.
const configuration = `imex: {join: none}
publicationDefaults:
  maxDomainGPUs: {GB200: 576}
  baseBlockSize: 18
  settleTime: 500ms
  loadTimeout: 2s
`

// confirm lets nodes move as soon as facts settle.
const confirm = "confirm: 500ms"

// bencher is a cluster, its machines and its publisher.
type bencher struct {
	options
	cluster    *kuberig.Cluster
	site       *site
	revisions  *revisions
	program    string
	kubeconfig string
	publisher  *publisher // nil before it is started
}

// bench measures all events.
func bench(ctx context.Context, o options) error {
	b := &bencher{options: o}
	if err := b.start(ctx); err != nil {
		return err
	}
	defer b.stop()
	m := &meter{bench: b}
	if err := m.measure(ctx, "cold start", b.coldStart); err != nil {
		return err
	}
	if o.events {
		if err := b.measureEvents(ctx, m); err != nil {
			return err
		}
	}
	if o.faults {
		if err := b.letHappen(ctx); err != nil {
			return err
		}
	}
	if o.slurm {
		return b.reconfigures(ctx)
	}
	return nil
}

// measureEvents measures all events but the cold start.
func (b *bencher) measureEvents(ctx context.Context, m *meter) error {
	for _, e := range []struct {
		name string
		do   func(context.Context) (changed, stored time.Time, err error)
	}{
		{"all Nodes are annotated", b.annotated},
		{"at rest", b.rests},
		{"a rack joins", func(ctx context.Context) (time.Time, time.Time, error) { return b.joins(ctx, b.racks) }},
		{"a rack reboots", b.reboots},
		{"5 % of the nodes flap", b.flaps},
		{"all agents restart", b.agentsRestart},
		{"at rest", b.rests},
	} {
		if err := m.measure(ctx, e.name, e.do); err != nil {
			return err
		}
	}
	return nil
}

// start starts the cluster and makes its nodes.
func (b *bencher) start(ctx context.Context) (err error) {
	if b.program, err = programs.Build(ctx, programs.Quoin); err != nil {
		return err
	}
	if b.cluster, err = kuberig.Start(ctx, b.dir); err != nil {
		return err
	}
	_, file, _, _ := runtime.Caller(0)
	manifests := filepath.Join(filepath.Dir(file), "../../../manifests/plain/base")
	if err := b.cluster.Objects().Apply(ctx, manifests); err != nil {
		return err
	}
	if err := os.WriteFile(b.path("quoin.yaml"), []byte(configuration), 0o600); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	if b.kubeconfig, err = b.cluster.Token(ctx, "quoin-system", "quoin-publisher", ""); err != nil {
		return err
	}
	if b.site, err = newSite(b.cluster, b.racks+1); err != nil {
		return err
	}
	b.revisions = watchRevisions(ctx, b.site)
	began := time.Now()
	if err := each(ctx, b.present(), b.site.join); err != nil {
		return err
	}
	fmt.Fprintf(b.stdout, "%d nodes added, each with its own token: %s\n", len(b.present()), time.Since(began).Round(time.Second))
	return nil
}

func (b *bencher) path(name string) string { return filepath.Join(b.dir, name) }

// present are the machines without the spare rack.
func (b *bencher) present() []*machine { return b.site.machines[:b.racks*rackNodes] }

// joined are the machines that have joined.
func (b *bencher) joined() []*machine {
	if b.site.machines[len(b.present())].agent == nil {
		return b.present()
	}
	return b.site.machines
}

// stop ends everything.
func (b *bencher) stop() {
	if b.publisher != nil {
		b.publisher.Stop()
	}
	b.cluster.Stop()
}

// coldStart starts a publisher where nothing has been published.
func (b *bencher) coldStart(ctx context.Context) (changed, stored time.Time, err error) {
	if b.publisher, err = startPublisher(b.program, b.path("quoin.yaml"), b.kubeconfig, b.path("publisher.log")); err != nil {
		return changed, stored, err
	}
	r, err := b.revisions.until(ctx, b.joined())
	if err != nil {
		return changed, stored, err
	}
	return b.publisher.began, r.at, nil
}

// annotated waits until every Node has its annotation.
func (b *bencher) annotated(ctx context.Context) (changed, stored time.Time, err error) {
	for limit := time.Now().Add(2 * waitLimit); ; {
		left, err := b.unannotated(ctx)
		if err != nil || left == 0 {
			return changed, stored, err
		}
		if time.Now().After(limit) {
			return changed, stored, fmt.Errorf("%d Nodes have no annotation", left)
		}
		time.Sleep(2 * time.Second)
	}
}

// rests waits, while nothing changes.
func (b *bencher) rests(ctx context.Context) (changed, stored time.Time, err error) {
	select {
	case <-ctx.Done():
		return changed, stored, ctx.Err()
	case <-time.After(b.rest):
		return changed, stored, nil
	}
}

// joins adds a rack, and waits for a file with all its nodes.
func (b *bencher) joins(ctx context.Context, rack int) (changed, stored time.Time, err error) {
	if err := each(ctx, b.site.rack(rack), b.site.join); err != nil {
		return changed, stored, err
	}
	return b.published(ctx)
}

// published waits for a file that is as the machines report. It returns when the wait began, and when the
// file was stored.
func (b *bencher) published(ctx context.Context) (changed, stored time.Time, err error) {
	changed = time.Now()
	r, err := b.revisions.until(ctx, b.joined())
	if err != nil {
		return changed, stored, err
	}
	return changed, r.at, nil
}

// rebooted returns the report of a machine that boots: its GPUs have not joined their
// fabric yet.
func rebooted(n *topology.Node) *topology.Node {
	next := *n
	next.BootID, next.Domain = fmt.Sprintf("boot-%d", time.Now().UnixNano()), topology.NVLinkDomain{}
	next.GPUs = append([]topology.GPU(nil), n.GPUs...)
	for i := range next.GPUs {
		next.GPUs[i].Fabric = topology.Fabric{State: topology.FabricInProgress}
	}
	return &next
}

// bootTime is how long a machine's fabric is in progress.
const bootTime = 2 * time.Second

// reboots has a rack report as it does in a reboot. No file may change.
func (b *bencher) reboots(ctx context.Context) (changed, stored time.Time, err error) {
	rack := b.site.rack(0)
	count := b.revisions.count()
	err = each(ctx, rack, func(ctx context.Context, m *machine) error { return m.say(ctx, rebooted(m.report)) })
	if err != nil {
		return changed, stored, err
	}
	time.Sleep(bootTime)
	err = each(ctx, rack, func(ctx context.Context, m *machine) error {
		next := *m.report
		next.BootID = fmt.Sprintf("boot-%d", time.Now().UnixNano())
		m.report = &next
		return m.say(ctx, m.report)
	})
	if err != nil {
		return changed, stored, err
	}
	time.Sleep(bootTime)
	if n := b.revisions.count() - count; n > 0 {
		return changed, stored, fmt.Errorf("%d new files: want none", n)
	}
	return changed, stored, nil
}

// agentsRestart has every agent read its own report again.
func (b *bencher) agentsRestart(ctx context.Context) (changed, stored time.Time, err error) {
	return changed, stored, each(ctx, b.joined(), func(ctx context.Context, m *machine) error { return m.agent.start(ctx) })
}

// unannotated counts the Nodes without their annotation.
func (b *bencher) unannotated(ctx context.Context) (int, error) {
	nodes, err := b.site.admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if apierrors.IsTooManyRequests(err) {
		return len(b.joined()), nil
	} else if err != nil {
		return 0, err
	}
	left := 0
	for i := range nodes.Items {
		if nodes.Items[i].Annotations["topology.slinky.slurm.net/spec"] == "" {
			left++
		}
	}
	return left, nil
}
