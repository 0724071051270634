package inputs

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

// FuzzBytes reads quantities as Kubernetes does, up to 2^53 bytes. Kubernetes takes "Mi" for 0 bytes.
func FuzzBytes(f *testing.F) {
	for _, text := range []string{"0", "189471Mi", "185Gi", "1.5Gi", "80e9", "80E9", "1E", "2k", "1500m", "7n", "3u", "9P", "9Ei", "1e-3", "5.", "", "Mi", "1 Gi", "1gi", "1KiB", "0x10", "1_000", "NaN", "Inf", "1e400"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		var got Bytes
		err = json.Unmarshal(quoted, &got)
		q, qErr := resource.ParseQuantity(text)
		if want := q.Value(); qErr == nil && strings.IndexAny(text, "0123456789") == 0 && q.AsApproximateFloat64() < 1<<53 && (err != nil || int64(got) != want) {
			t.Errorf("%s: %d bytes, %v: want %d", text, got, err, want)
		}
	})
}

// TestBytesRefuses reads what is no quantity.
func TestBytesRefuses(t *testing.T) {
	for _, text := range []string{"", "Mi", "1 Gi", "1gi", "1KiB", "0x10", "1_000", "NaN", "Inf", "1.2.3", "e9", "-1Gi", "80GiB of memory"} {
		var got Bytes
		if err := json.Unmarshal([]byte(strconv.Quote(text)), &got); err == nil {
			t.Errorf("%q was read as %d bytes", text, got)
		}
	}
}
