// Package oracle says how many random cases a test compares with a real program, or plays
// against a reference, and gives the random numbers for them. make test takes a sample, always
// the same one; make oracle takes all, with another seed each time.
package oracle

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// The variables of the environment. If Whole is not empty, the comparisons are whole. Seed
// repeats the random cases of an earlier run.
const (
	Whole = "QUOIN_ORACLE"
	Seed  = "QUOIN_TEST_SEED"
)

// Rounds returns sample, or whole if whole comparisons are asked for.
func Rounds(sample, whole int) int {
	if os.Getenv(Whole) != "" {
		return whole
	}
	return sample
}

// Rand returns random numbers, and logs the seed to repeat them.
func Rand(t testing.TB) *rand.Rand { return rand.New(rand.NewPCG(SeedOf(t), 1)) } //nolint:gosec // no secret

// SeedOf returns the seed of a test, and logs it.
func SeedOf(t testing.TB) uint64 {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv(Seed), 10, 64)
	switch {
	case err == nil:
	case os.Getenv(Seed) != "":
		t.Fatalf("%s=%s: want a number", Seed, os.Getenv(Seed))
	case os.Getenv(Whole) != "":
		seed = uint64(time.Now().UnixNano()) //nolint:gosec // it has no sign
	default:
		seed = 2605
	}
	t.Logf("%s=%d", Seed, seed)
	return seed
}
