/** Reads the properties of the page that pictures on canvases need: their width and the colours. */
import type { RefObject } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { ThemeName } from '../draw/theme.ts';
import { readCurrentTheme } from './theme.ts';

const FONT = '12px system-ui, sans-serif';

interface PictureFrame {
  element: RefObject<HTMLDivElement | null>;
  widthPx: number;
  theme: ThemeName;
}

export function useFrame(): PictureFrame {
  const element = useRef<HTMLDivElement>(null);
  const [widthPx, setWidthPx] = useState(0);
  const [theme, setTheme] = useState(readCurrentTheme);
  useLayoutEffect(() => {
    const measure = () => setWidthPx(element.current!.clientWidth);
    const observer = new ResizeObserver(measure);
    observer.observe(element.current!);
    measure();
    const updateTheme = () => setTheme(readCurrentTheme());
    window.addEventListener('themechange', updateTheme);
    return () => {
      observer.disconnect();
      window.removeEventListener('themechange', updateTheme);
    };
  }, []);
  return { element, widthPx, theme };
}

/** Colours of the style sheet for use on a canvas, which does not resolve CSS variables. */
export interface Ink {
  text: string;
  quiet: string;
  line: string;
  ground: string;
}

export function readInk(): Ink {
  const style = getComputedStyle(document.documentElement);
  const readColor = (name: string) => style.getPropertyValue(`--${name}`).trim();
  return { text: readColor('text'), quiet: readColor('quiet'), line: readColor('line'), ground: readColor('panel') };
}

/**
 * Sets the size of a canvas in CSS pixels and how texts are drawn, and clears the canvas. With `isEmpty` it is not cleared, because clearing
 * takes as long as drawing.
 */
export function clearCanvas(
  canvas: HTMLCanvasElement,
  widthPx: number,
  heightPx: number,
  dpr: number,
  isEmpty = false,
) {
  const columns = Math.round(widthPx * dpr);
  const rows = Math.round(heightPx * dpr);
  if (canvas.width !== columns || canvas.height !== rows) {
    canvas.width = columns;
    canvas.height = rows;
    canvas.style.width = `${widthPx}px`;
    canvas.style.height = `${heightPx}px`;
  }
  const context = canvas.getContext('2d')!;
  context.setTransform(dpr, 0, 0, dpr, 0, 0);
  context.font = FONT;
  context.textBaseline = 'middle';
  if (!isEmpty) context.clearRect(0, 0, widthPx, heightPx);
  return context;
}
