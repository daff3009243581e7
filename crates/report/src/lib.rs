//! Tables, JSON and pictures from recorded runs.
