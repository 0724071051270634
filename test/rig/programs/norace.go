//go:build !race

package programs

// detectsRaces says that the tests run under the race detector.
const detectsRaces = false
