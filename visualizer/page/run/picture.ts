import { wrap } from '../../draw-svg.ts';
import { saveFile } from '../ui/save-file.ts';

const SVG = 'http://www.w3.org/2000/svg';
const WIDTH = 720;
const EDGE = 20;
const STRIP = 44;

/** What the style sheets give the drawn elements; as attributes, it stays when the picture leaves the page. */
const LOOKS = [
  ...['fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-dasharray', 'opacity'],
  ...['font-family', 'font-size', 'font-weight', 'text-anchor', 'dominant-baseline'],
  ...['display', 'visibility'],
];

/** Saves the strip, the compact chart and the next action's reason as one file, without other contents of the run. */
export async function savePicture(runId: string, at: number, kind: 'svg' | 'png'): Promise<void> {
  const drawn = new Blob([drawPicture(runId, at)], { type: 'image/svg+xml' });
  saveFile(`${runId}-${at}.${kind}`, kind === 'svg' ? drawn : await paint(drawn));
}

const SCALE = 2;

/** Paints an SVG as a PNG. The content security policy allows images that the page itself made (`blob:`). */
async function paint(svg: Blob): Promise<Blob> {
  const url = URL.createObjectURL(svg);
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    const canvas = document.createElement('canvas');
    canvas.width = image.naturalWidth * SCALE;
    canvas.height = image.naturalHeight * SCALE;
    canvas.getContext('2d')?.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve, reject) =>
      canvas.toBlob(png => (png === null ? reject(new Error('No PNG.')) : resolve(png)), 'image/png'),
    );
  } finally {
    URL.revokeObjectURL(url);
  }
}

function drawPicture(runId: string, at: number): string {
  const looks = getComputedStyle(document.body);
  const background = looks.backgroundColor === 'rgba(0, 0, 0, 0)' ? 'white' : looks.backgroundColor;
  const [strip, chart] = [copyDrawing('.strip .bars'), copyDrawing('.sketch')];
  const box = chart.viewBox.baseVal;
  const inner = WIDTH - 2 * EDGE;
  const tall = Math.round((box.height / box.width) * inner);
  const lines = wrap((document.querySelector('.chart-pane .where')?.textContent ?? '').slice(0, 600), 80);
  const below = EDGE + 30 + STRIP + 16 + tall + 26;
  const height = below + lines.length * 20 + EDGE;
  const page = make('svg', { xmlns: SVG, width: WIDTH, height, viewBox: `0 0 ${WIDTH} ${height}` });
  const text = (content: string, y: number): SVGElement => {
    const font = { 'font-family': 'sans-serif', 'font-size': 14 };
    const made = make('text', { x: EDGE, y, fill: looks.color, ...font });
    made.textContent = content;
    return made;
  };
  set(strip, { x: EDGE, y: EDGE + 30, width: inner, height: STRIP });
  set(chart, { x: EDGE, y: EDGE + 30 + STRIP + 16, width: inner, height: tall });
  const cursor = document.querySelector('.track .cursor');
  const share = cursor === null ? 0 : Number(getComputedStyle(cursor).getPropertyValue('--at'));
  const x = EDGE + share * inner;
  page.append(
    make('rect', { width: WIDTH, height, fill: background }),
    text(`${runId}, entry ${at}`, EDGE + 14),
    strip,
    make('path', { d: `M${x} ${EDGE + 26}v${STRIP + 8}`, stroke: looks.color, 'stroke-width': 2 }),
    chart,
    ...lines.map((line, index) => text(line, below + index * 20)),
  );
  return new XMLSerializer().serializeToString(page);
}

type Attributes = Record<string, string | number>;

function make(name: string, attributes: Attributes): SVGElement {
  const made = document.createElementNS(SVG, name) as SVGElement;
  return set(made, attributes);
}

function set(element: SVGElement, attributes: Attributes): SVGElement {
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  return element;
}

function copyDrawing(selector: string): SVGSVGElement {
  const drawn = document.querySelector<SVGSVGElement>(selector);
  if (drawn === null) return make('svg', { viewBox: '0 0 1 1' }) as SVGSVGElement;
  const copy = drawn.cloneNode(true) as SVGSVGElement;
  const copies = [copy, ...copy.querySelectorAll('*')];
  for (const [index, element] of [drawn, ...drawn.querySelectorAll('*')].entries()) {
    const style = getComputedStyle(element);
    const target = copies[index];
    target?.removeAttribute('class');
    for (const name of LOOKS) target?.setAttribute(name, style.getPropertyValue(name));
  }
  return copy;
}
