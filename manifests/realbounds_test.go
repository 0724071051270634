package manifests_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodereport"
)

// boundedCase is a report at a bound or past it.
type boundedCase struct {
	breakage
	server, parser bool // who takes it
}

// many returns a list of n items like the first one. GPUs have numbers of their own.
func many(n int) func(any) any {
	return func(v any) any {
		items := make([]any, n)
		for i := range items {
			items[i] = v.([]any)[0]
			if gpu, ok := items[i].(map[string]any); ok && gpu["minor"] != nil {
				gpu = maps.Clone(gpu)
				gpu["uuid"], gpu["minor"] = fmt.Sprint("GPU-", i), json.Number(fmt.Sprint(i))
				items[i] = gpu
			}
		}
		return items
	}
}

func letters(n int) func(any) any { return to(strings.Repeat("x", n)) }

// boundedCases are the bounds that people are told of, then each bound of strings and lists
// by its path, and then all else that breaks a report.
func boundedCases(t *testing.T) []boundedCase {
	t.Helper()
	const file = "gpus.[].mig.[].capabilities.[]"
	cases := []boundedCase{
		{breakage{"a whole report", "", func(v any) any { return v }}, true, true},
		{breakage{"64 GPUs", "gpus", many(64)}, true, true},
		{breakage{"65 GPUs", "gpus", many(65)}, false, false},
		{breakage{"16 MIG instances", "gpus.[].mig", many(16)}, true, true},
		{breakage{"17 MIG instances", "gpus.[].mig", many(17)}, false, false},
		{breakage{"64 problems", "problems", many(64)}, true, true},
		{breakage{"65 problems", "problems", many(65)}, false, false},
		{breakage{"a product of 256 bytes", "gpus.[].product", letters(256)}, true, true},
		{breakage{"a product of 257 bytes", "gpus.[].product", letters(257)}, false, false},
		{breakage{"a product of 900 KB", "gpus.[].product", letters(900_000)}, false, false},
		{breakage{"a report of more than 3 MB", "gpus.[].product", letters(3<<20 + 1)}, false, false},
		{breakage{"a capability file with a space", file, to("/dev/nvidia-caps/nvidia cap1")}, false, false},
		{breakage{"a disk as capability file", file, to("/dev/sda")}, false, false},
		{breakage{"a line end after a capability file", file, to("/dev/nvidia-caps/nvidia-cap21\n")}, false, false},
		{breakage{"a file below a capability file", file, to("/dev/nvidia-caps/nvidia-cap21/../../sda")}, false, false},
		{breakage{"the name of another node", "node", to("n2")}, false, false},
		// A schema of Kubernetes counts letters, and says nothing of all values together.
		{breakage{"129 letters of two bytes", "gpus.[].product", to(strings.Repeat("é", 129))}, true, false},
		{breakage{"more than 64 KiB together", "gpus", func(v any) any { return many(20)(edit(v, "[].cpuAffinity", letters(4096))) }}, true, false},
		{breakage{"a minor twice", "gpus", func(v any) any { return append(v.([]any), v.([]any)[0]) }}, true, false},
	}
	cases = reportSchema(t).bounds("", cases)
	if len(cases) < 60 {
		t.Fatalf("%d cases: the definition has more bounds", len(cases))
	}
	for _, b := range breakages(t) {
		cases = append(cases, boundedCase{b, false, false})
	}
	for _, b := range unknownKeys(t) { // the test asks the API server to be strict, and agents do not
		cases = append(cases, boundedCase{b, false, true})
	}
	return cases
}

// bounds adds the largest value at each path that is in bounds, and the next larger one.
func (s *structural) bounds(path string, cases []boundedCase) []boundedCase {
	bound := func(most int, at func(int) func(any) any, form bool) {
		if form {
			cases = append(cases, boundedCase{breakage{fmt.Sprintf("%s of %d", path, most), path, at(most)}, true, true})
		}
		cases = append(cases, boundedCase{breakage{fmt.Sprintf("%s of %d", path, most+1), path, at(most + 1)}, false, false})
	}
	switch s.Type {
	case "string":
		bound(*s.MaxLength, letters, s.Pattern == "" && s.Enum == nil && path != "node")
	case "array":
		bound(*s.MaxItems, many, true)
		return s.Items.bounds(path+".[]", cases)
	}
	for name, p := range s.Properties {
		cases = p.bounds(strings.TrimPrefix(path+"."+name, "."), cases)
	}
	return cases
}

// TestRealBounds asks a real API server for reports at each bound and past it: it refuses
// what the publisher's parser refuses, and takes what the parser takes. Nothing is stored.
func TestRealBounds(t *testing.T) {
	t.Parallel()
	c := kuberig.StartTest(t)
	if err := c.Objects().Apply(t.Context(), definitionFile); err != nil {
		t.Fatal(err)
	}
	client := c.Client().CoreV1().RESTClient()
	ask := func(object []byte) error { return askServer(t, client, object) }
	whole := edit(document(t, []byte(everything)), "metadata", to(map[string]any{"name": "n1"}))
	object, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the API server takes NodeReports", func() bool { return ask(object) == nil })
	for _, b := range boundedCases(t) {
		t.Run(b.name, func(t *testing.T) {
			doc := edit(document(t, []byte(everything)), b.path, b.change)
			object, err := json.Marshal(edit(doc, "metadata", to(map[string]any{"name": "n1"})))
			if err != nil {
				t.Fatal(err)
			}
			server := ask(object)
			if taken := server == nil; taken != b.server {
				t.Errorf("the API server takes it: %t, want %t: %s", taken, b.server, topology.Cut(fmt.Sprint(server), topology.MaxMessage))
			}
			var read nodereport.Object
			parser := json.Unmarshal(object, &read)
			if parser == nil {
				parser = read.Err
			}
			if taken := parser == nil; taken != b.parser {
				t.Errorf("the parser takes it: %t, want %t: %v", taken, b.parser, parser)
			}
		})
	}
}

// askServer creates an object in a dry run. An error other than a refusal ends the test.
func askServer(t *testing.T, client rest.Interface, object []byte) error {
	t.Helper()
	err := client.Post().AbsPath("/apis", topology.APIVersion, nodereport.Resource).Param("dryRun", "All").Param("fieldValidation", "Strict").
		SetHeader("Content-Type", "application/json").Body(object).Do(t.Context()).Error()
	if err != nil && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) && !apierrors.IsNotFound(err) && !apierrors.IsRequestEntityTooLargeError(err) {
		t.Fatal(err)
	}
	return err
}
