// Pages for nginx's own JavaScript, one a habit.
import fs from 'fs';

const text = 'x'.repeat(1024);

function plain(r) {
    r.return(200, text);
}

// The site's settings, from the file that a variable names.
function read(r) {
    const settings = JSON.parse(fs.readFileSync(r.variables.settings));
    r.return(200, settings.valves[7].name);
}

// The same, read by nginx when it starts (js_preload_object).
function kept(r) {
    r.return(200, settings.valves[7].name);
}

export default {plain, read, kept};
