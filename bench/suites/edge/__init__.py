"""The suite `edge`: Fermata's GRIP edge and Pushpin in front of one backend."""
