package nodeagent

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/nodeagent/probe"
)

// IDSource knows DCGM's ids of GPUs. They name the files that DCGM Exporter reads, and
// need not be NVML's indices.
type IDSource interface {
	// String names the source in messages, such as "DCGM Exporter http://…".
	String() string
	// Kind is the source's name in metrics.
	Kind() string
	// Read returns the ids by UUID.
	Read(ctx context.Context) (map[string]int, error)
}

// idAnswer is the answer of the first source that gave one.
type idAnswer struct {
	ids       map[string]int // by UUID; nil without an answer
	otherwise string         // why other GPUs have no id; the report says it
	failed    error          // why no source gave an answer
}

// answerIDs reads DCGM's ids whenever the loop asks.
func (a *Agent) answerIDs(ctx context.Context) {
	if len(a.config.IDs) == 0 {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case gpus := <-a.questions:
			got := a.readIDs(ctx, gpus)
			if ctx.Err() != nil {
				return // the sources were not asked to the end
			}
			send(ctx, a.ids, got)
		}
	}
}

// onIDs takes an answer. It returns when to ask again if no GPU changes: at long intervals, and with a growing
// pause while an id is missing.
func (a *Agent) onIDs(got idAnswer) (pause time.Duration) {
	a.facts.takeIDs(got)
	problem := got.failed
	if missing := withoutID(a.facts.report()); len(missing) > 0 {
		problem = errors.Join(problem, fmt.Errorf("%s: %s", strings.Join(missing, ", "), got.otherwise))
	}
	a.log.Note("DCGM's ids of GPUs", problem)
	if problem == nil {
		a.idFailures = 0
		return a.config.IDsEvery
	}
	a.idFailures++
	return min(a.config.IDsEvery, pauseAfter(a.idFailures))
}

// storePatience is how long the agent waits at its start for the ids that an earlier agent stored, if no source answers.
const storePatience = 10 * time.Second

// readIDs asks one source after the other for the GPUs' ids, until a source answers. All failures of a source have the same message in the
// report, because a message with an address would change the report with each try.
func (a *Agent) readIDs(ctx context.Context, gpus []string) idAnswer {
	var asked []string
	var failed []error
	for _, s := range a.config.IDs {
		asked = append(asked, s.String())
		ids, err := readFrom(ctx, s, gpus)
		if ctx.Err() != nil {
			return idAnswer{}
		}
		result := "ok"
		if err != nil {
			result = "error"
			failed = append(failed, fmt.Errorf("%s: %w", s, err))
		}
		a.metrics.dcgmReads.WithLabelValues(s.Kind(), result).Inc()
		if err == nil {
			return idAnswer{ids: ids, otherwise: s.String() + " does not know it"}
		}
	}
	// The files would have NVML's indices in place of ids that the stored report has.
	select {
	case <-ctx.Done():
	case <-a.known:
	case <-time.After(storePatience):
	}
	return idAnswer{otherwise: strings.Join(asked, ", ") + ": no answer", failed: errors.Join(failed...)}
}

// readFrom asks one source, whose answer must be about these GPUs.
func readFrom(ctx context.Context, s IDSource, gpus []string) (map[string]int, error) {
	ids, err := s.Read(ctx)
	if err != nil || len(gpus) == 0 {
		return ids, err
	}
	own := make(map[string]int)
	for _, uuid := range gpus {
		if id, ok := ids[uuid]; ok {
			own[uuid] = id
		}
	}
	if len(own) == 0 {
		return nil, fmt.Errorf("it knows none of this node's GPUs (of %d that it names): is it another node's?", len(ids))
	}
	return own, nil
}

// Exporter reads the ids from DCGM Exporter's series.
type Exporter struct {
	url    string
	client *http.Client
}

// NewExporter returns the exporter whose metrics are at url.
func NewExporter(url string) *Exporter {
	return &Exporter{url: url, client: &http.Client{
		Timeout: 10 * time.Second,
		// One request in minutes needs no lasting connection and no proxy.
		Transport: &http.Transport{DisableKeepAlives: true},
	}}
}

// String implements IDSource.
func (e *Exporter) String() string { return "DCGM Exporter " + e.url }

// Kind implements IDSource.
func (e *Exporter) Kind() string { return "exporter" }

// maxExposition bounds an exporter's answer: one of 8 GPUs in 7 instances each,
// with jobs and pods as labels, is a few MB.
const maxExposition = 64 << 20

// maxSeries bounds one line of it.
const maxSeries = 1 << 20

// Read implements IDSource.
func (e *Exporter) Read(ctx context.Context) (map[string]int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url, nil)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4")
	resp, err := e.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read metrics: it answers %s", resp.Status)
	}
	return exporterIDs(&io.LimitedReader{R: resp.Body, N: maxExposition})
}

// exporterIDs reads the ids from the text of DCGM Exporter's series. It reads line by
// line, because there may be many.
func exporterIDs(r *io.LimitedReader) (map[string]int, error) {
	const series = "DCGM_FI_"
	ids := make(map[string]int)
	owner := make(map[int]string)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxSeries)
	number := 0
	for lines.Scan() {
		number++
		if !bytes.HasPrefix(lines.Bytes(), []byte(series)) {
			continue
		}
		uuid, gpu, err := sampleOf(&parser, lines.Bytes())
		if err != nil {
			return nil, fmt.Errorf("line %d of the metrics: %w", number, err)
		}
		if uuid == "" || gpu == "" { // a series of a switch, a link or a processor
			continue
		}
		id, err := strconv.ParseUint(gpu, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("line %d of the metrics: gpu=%q: want a number", number, gpu)
		}
		old, known := ids[uuid]
		other, taken := owner[int(id)]
		switch {
		case known && old != int(id):
			return nil, fmt.Errorf("line %d of the metrics: %s is gpu %d, before it was %d", number, uuid, id, old)
		case taken && other != uuid:
			return nil, fmt.Errorf("line %d of the metrics: gpu %d is %s, before it was %s: want the exporter of one node", number, id, uuid, other)
		}
		ids[uuid], owner[int(id)] = int(id), uuid
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d of the metrics: %w", number+1, err)
	}
	if r.N == 0 {
		return nil, fmt.Errorf("the metrics are longer than %d MiB", maxExposition>>20)
	}
	if len(ids) == 0 {
		return nil, errors.New("no series " + series + "* has the labels gpu and UUID: is it DCGM Exporter's address, and does it see a GPU?")
	}
	return ids, nil
}

// sampleOf returns the labels of one line that say which GPU it is about.
func sampleOf(parser *expfmt.TextParser, line []byte) (uuid, gpu string, err error) {
	families, err := parser.TextToMetricFamilies(io.MultiReader(bytes.NewReader(line), strings.NewReader("\n")))
	if err != nil {
		return "", "", err
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				switch l.GetName() {
				case "UUID", "uuid": // the latter with --use-old-namespace
					uuid = l.GetValue()
				case "gpu":
					gpu = l.GetValue()
				}
			}
		}
	}
	return uuid, gpu, nil
}

// HostEngine reads the ids from DCGM's host engine by a child, because DCGM's
// library may hang or end the process that calls it.
type HostEngine struct {
	address string
	child   probe.Child
}

// NewHostEngine returns the host engine at address. command prints its ids as one
// line and ends.
func NewHostEngine(address string, command []string, log *slog.Logger) *HostEngine {
	const patience = 15 * time.Second
	return &HostEngine{address: address, child: probe.Child{
		Name: "DCGM probe", Suspect: "the host engine may hang", Command: command, Start: patience, Silence: patience, Log: log}}
}

// String implements IDSource.
func (h *HostEngine) String() string { return "DCGM host engine " + h.address }

// Kind implements IDSource.
func (h *HostEngine) Kind() string { return "hostengine" }

// Read implements IDSource.
func (h *HostEngine) Read(ctx context.Context) (map[string]int, error) {
	gpus, err := probe.Ask(ctx, h.child, dcgm.ParseIdentities)
	if err != nil {
		return nil, err
	}
	ids := make(map[string]int, len(gpus))
	for _, g := range gpus {
		ids[g.UUID] = g.ID
	}
	return ids, nil
}
