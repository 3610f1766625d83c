//! Every setting of Fermata, declared once
