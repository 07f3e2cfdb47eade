<?xml version="1.0"?>
<!-- How many valves each hall has; those of a hall are found by a key. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
  <xsl:output method="html" indent="no"/>
  <xsl:key name="in-hall" match="valve" use="@hall"/>
  <xsl:template match="/stock">
    <html><body>
      <xsl:for-each select="valve[generate-id() = generate-id(key('in-hall', @hall)[1])]">
        <xsl:sort select="@hall" data-type="number"/>
        <h2>Hall <xsl:value-of select="@hall"/>: <xsl:value-of select="count(key('in-hall', @hall))"/> valves</h2>
      </xsl:for-each>
    </body></html>
  </xsl:template>
</xsl:stylesheet>
