package graph

// Table is a mechanism on an explicit graph: the law of its answer at each vertex.
type Table struct {
	outputs int
	p       []float64
}

// NewTable returns a table of zeros, of at least 0 vertices and 1 output.
func NewTable(vertices, outputs int) *Table {
	vertices, outputs = max(vertices, 0), max(outputs, 1)
	return &Table{outputs, make([]float64, vertices*outputs)}
}

// Vertices returns the number of vertices.
func (t *Table) Vertices() int { return len(t.p) / max(t.outputs, 1) }

// Outputs returns the number of outputs.
func (t *Table) Outputs() int { return t.outputs }

// At returns the probabilities of the outputs 0 … k−1 at a vertex. The slice is part of the table.
func (t *Table) At(v int) []float64 { return t.p[v*t.outputs : (v+1)*t.outputs : (v+1)*t.outputs] }
