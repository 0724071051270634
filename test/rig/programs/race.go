//go:build race

package programs

const detectsRaces = true
