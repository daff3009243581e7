//! A web server: processor, disk and network (Murta & Corlassoli 2002).
